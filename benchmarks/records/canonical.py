"""Canonical JSON, and the digests over it: equal values give equal bytes in every process."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

import numpy as np


def canonical(value: Any) -> bytes:
    """Sorted keys, no blanks, ASCII alone. NaN and the infinities, which JSON has not, are ValueErrors: see `plain`."""
    return _STRICT.encode(value).encode()


def written(value: Any) -> bytes:
    """`canonical(plain(value))` for mappings whose keys are texts, with a second pass only where something needs it."""
    try:
        return _LENIENT.encode(value).encode()
    except ValueError:  # NaN or an infinity
        return canonical(plain(value))


def digest_of(value: Any) -> str:
    """SHA-256 of the canonical JSON."""
    return sha256(canonical(value)).hexdigest()


def root_of(digests: Iterable[tuple[int, str]]) -> str:
    """SHA-256 over (index, digest) pairs by index: what was played, whatever the order."""
    return sha256("".join(digest for _, digest in sorted(digests)).encode()).hexdigest()


def plain(value: Any) -> Any:
    """JSON values: tuples as lists, NaN and the infinities as the texts `NaN`, `Infinity` and `-Infinity`.

    What is neither text, number nor collection is told by its `repr`.
    """
    if isinstance(value, str) or value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else "NaN" if value != value else f"{'-' * (value < 0)}Infinity"
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one) for one in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    return repr(value)


def number(value: Any) -> float:
    """The number that `plain` wrote."""
    return float(value)


_STRICT = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
_LENIENT = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False, default=plain)
