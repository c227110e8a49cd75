"""Canonical JSON, and the digests over it: equal values give equal bytes in every process."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from trainer.lines import plain


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


_STRICT = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
_LENIENT = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False, default=plain)
