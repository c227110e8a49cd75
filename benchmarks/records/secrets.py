"""Secrets of the environment, which no file of a run may hold."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

LEAST = 8
"""Characters from which a value is a secret; shorter ones, as `none`, are words that local servers ask for."""
_NAMES = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS)$", re.IGNORECASE)


def secrets_of() -> tuple[str, ...]:
    """The values of the environment's variables whose names end like a secret's, the longest first."""
    found = {value for name, value in os.environ.items() if _NAMES.search(name) and len(value) >= LEAST}
    return tuple(sorted(found, key=lambda value: (-len(value), value)))


def scrubbed(value: Any, secrets: tuple[str, ...]) -> Any:
    """The JSON value with `***` in the place of every secret."""
    if not secrets:
        return value
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, "***")
        return value
    if isinstance(value, Mapping):
        return {scrubbed(key, secrets): scrubbed(one, secrets) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return list(map(partial(scrubbed, secrets=secrets), value))
    return value
