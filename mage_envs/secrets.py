"""Secrets of this process, such as API keys, which must not appear in a file, in a message or on a terminal."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

SHORTEST_SECRET = 8
"""Characters of the shortest value that is a secret. Shorter values, such as `none`, are words for local servers."""
MASK = "***"
_ENDINGS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIALS")
_used: set[str] = set()


def add_secret(value: str) -> None:
    """Make `value` a secret of this process, for example the API key in a variable that the user named."""
    if len(value) >= SHORTEST_SECRET:
        _used.add(value)


def is_secret_name(name: str) -> bool:
    """Return True if a variable or an option of this name holds a secret."""
    return name.upper().endswith(_ENDINGS)


def secrets_of() -> tuple[str, ...]:
    """Return all secrets, longest first: values from `add_secret`, and environment variables with a secret's name."""
    variables = (os.environ.get(name, "") for name in os.environ if is_secret_name(name))
    values = _used.union(value for value in variables if len(value) >= SHORTEST_SECRET)
    # A secret may be part of a longer one. If the shorter one were replaced first, the rest of the other would remain.
    return tuple(sorted(values, key=lambda value: (-len(value), value)))


def scrub(value: Any) -> Any:
    """Return the JSON value with `***` in place of every secret, also in the keys of objects."""
    secrets = secrets_of()
    return _scrub(value, secrets) if secrets else value


def _scrub(value: Any, secrets: tuple[str, ...]) -> Any:
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, MASK)
        return value
    if isinstance(value, Mapping):
        return {_scrub(key, secrets): _scrub(entry, secrets) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_scrub(entry, secrets) for entry in value]
    return value
