"""Bank of the items that a strategy has stored: for one meta-episode (`scope=meta`), or for all (`scope=run`).

With `scope=run`, a bank is a read-only file. `mage eval --fill` creates it first, in a pass over other tasks with
`scope=fill`. Because the file is read-only, results depend neither on the batch nor on the order of the meta-episodes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Generic, TypeVar

from mage_envs.files.bounded import read_json_inside
from mage_envs.loading.imports import check_path
from mage_envs.loading.options import check_choice

SCHEMA = 1
SCOPES = ("meta", "run", "fill")
T = TypeVar("T")


class Bank(Generic[T]):
    """Items of a strategy, in the order of storage."""

    def __init__(self, memory: str, scope: str, file: str | None) -> None:
        """Create an empty bank, or read one from a file.

        Args:
            scope: `meta`, `run` or `fill`.
            file: Path of the file, required if the scope is `run` and not allowed otherwise.

        Raises:
            ValueError: If `scope` and `file` do not match, or if another strategy created the file.
            OSError: If the file cannot be read.
        """
        check_choice("scope", scope, SCOPES)
        if (scope == "run") != (file is not None):
            raise ValueError(
                f"memory={memory}: scope=run and bank=FILE require each other. Create a bank with mage eval --fill; "
                f"without scope=run, nothing is kept between meta-episodes."
            )
        self.scope = scope
        self.content: Mapping[str, Any] = {}
        """Content of the file, or empty without one."""
        self.items: list[T] = []
        self._committed: list[T] = []
        if file is not None:
            self.content = read_bank(file)
            if self.content["memory"] != memory:
                raise ValueError(f"{file} is a bank of memory={self.content['memory']}, not of {memory}.")

    @property
    def writable(self) -> bool:
        """True if the strategy may store items."""
        return self.scope != "run"

    def begin(self) -> None:
        """Start a meta-episode, without items or, if the scope is `fill`, with those of all completed meta-episodes."""
        if self.scope == "meta":
            self.items = []
        elif self.scope == "fill":
            # An aborted meta-episode is played again. Its first attempt must leave no items.
            self.items = list(self._committed)

    def commit(self) -> None:
        """Keep the items of a meta-episode that is complete."""
        self._committed = list(self.items)


# Each of many environments opens the same bank, so the file is parsed and hashed once.
@lru_cache(maxsize=16)
def read_bank(file: str) -> Mapping[str, Any]:
    """Return the content of a bank's file. Raises OSError, or ValueError if it is malformed or its hash is wrong."""
    check_path(file, "memory bank")
    try:
        content = read_json_inside(Path(file).resolve().parent, Path(file).resolve().name)
        schema, digest = content["schema"], content["sha256"]
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(f"{file} is not a valid memory bank ({error}). Create one with mage eval --fill.") from error
    if schema != SCHEMA:
        raise ValueError(f"{file} has schema {schema}; this version reads {SCHEMA}. Create it with mage eval --fill.")
    if bank_digest(content) != digest:
        raise ValueError(f"{file} does not match its sha256: it was changed or cut. Create it with mage eval --fill.")
    bank: Mapping[str, Any] = content
    return bank


def bank_digest(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a bank's canonical JSON, without the digest itself."""
    payload = {key: value for key, value in content.items() if key != "sha256"}
    return sha256(json.dumps(payload, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def bank_text(memory: str, items: Sequence[Mapping[str, Any]], **facts: Any) -> str:
    """Return the text of a bank's file.

    Args:
        items: Items, oldest first.
        **facts: Further entries of the file, such as the encoder's name.

    Returns:
        JSON with the digest of its own content.
    """
    content = {"schema": SCHEMA, "memory": memory, **facts, "items": list(items)}
    return json.dumps({**content, "sha256": bank_digest(content)}, indent=1, sort_keys=True) + "\n"
