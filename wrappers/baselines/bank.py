"""What a strategy has stored: for one meta-episode (`scope=meta`), or for all of them (`scope=run`).

With `scope=run` a bank is a file, made beforehand by a pass over other tasks (`mage-bench fill`, which keeps it under
`scope=fill`), and read-only: results then depend neither on the batch nor on the order of the meta-episodes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Generic, TypeVar

from mage_envs.checks import check_choice
from mage_envs.imports import check_path

SCHEMA = 1
SCOPES = ("meta", "run", "fill")
T = TypeVar("T")


class Bank(Generic[T]):
    """Items in the order in which they were stored."""

    def __init__(self, memory: str, scope: str, file: str | None) -> None:
        """`memory`: name of the strategy. Raises ValueError for a scope without its file or the other way round, and
        where the file was made by another strategy; OSError where it cannot be read."""
        check_choice("scope", scope, SCOPES)
        if (scope == "run") != (file is not None):
            raise ValueError(
                f"memory={memory}: scope=run and bank=FILE belong together; mage-bench fill makes a bank, "
                f"and without scope=run nothing is kept from one meta-episode to the next."
            )
        self.memory, self.scope = memory, scope
        self.content: Mapping[str, Any] = {}
        """What the file holds."""
        self.items: list[T] = []
        self._committed: list[T] = []
        if file is not None:
            self.content = read_bank(file)
            if self.content["memory"] != memory:
                raise ValueError(f"{file} is a bank of memory={self.content['memory']}, not of {memory}.")

    @property
    def writable(self) -> bool:
        """Whether the strategy may store anything."""
        return self.scope != "run"

    def begin(self) -> None:
        """Starts a meta-episode: without items, or with those of the meta-episodes that came to their end."""
        if self.scope == "meta":
            self.items = []
        elif self.scope == "fill":
            self.items = list(self._committed)

    def commit(self) -> None:
        """The meta-episode came to its end: what it stored stays."""
        self._committed = list(self.items)


@lru_cache(maxsize=16)
def read_bank(file: str) -> Mapping[str, Any]:
    """A bank's file, checked against its own hash. Raises OSError, or ValueError for what is no sound bank."""
    check_path(file, "memory bank")
    try:
        content = json.loads(Path(file).read_text())
        schema, told = content["schema"], content["sha256"]
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(f"{file} is no bank of a memory ({error}); make one with mage-bench fill.") from error
    if schema > SCHEMA:
        raise ValueError(f"{file} has schema {schema}; this version reads up to {SCHEMA}. Update mage-envs.")
    if bank_digest(content) != told:
        raise ValueError(f"{file} does not match its sha256: it was changed or cut; make it anew with mage-bench fill.")
    found: Mapping[str, Any] = content
    return found


def bank_digest(content: Mapping[str, Any]) -> str:
    """SHA-256 of a bank's canonical JSON, its own digest left out."""
    rest = {key: value for key, value in content.items() if key != "sha256"}
    return sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def bank_text(memory: str, items: Sequence[Mapping[str, Any]], **facts: Any) -> str:
    """The text of a bank's file."""
    content = {"schema": SCHEMA, "memory": memory, **facts, "items": list(items)}
    return json.dumps({**content, "sha256": bank_digest(content)}, indent=1, sort_keys=True) + "\n"
