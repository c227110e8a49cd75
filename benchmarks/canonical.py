"""Canonical JSON and digests over it: equal values have equal bytes in every process."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from mage_envs.wrappers.rollout.trajectory_json import plain


def canonical(value: Any) -> bytes:
    """Return canonical JSON: sorted keys, no blanks, only ASCII. Raise ValueError for NaN and infinity; see `plain`."""
    return _STRICT.encode(value).encode()


def encode(value: Any) -> bytes:
    """Return `canonical(plain(value))` for a mapping whose keys are strings."""
    # `plain` copies the whole value. Most values need it at most for a few parts, which `default` converts.
    try:
        return _LENIENT.encode(value).encode()
    # NaN or infinity: the encoder does not call `default` for floats.
    except ValueError:
        return canonical(plain(value))


def digest_of(value: Any) -> str:
    """Return the SHA-256 of the canonical JSON of a value."""
    return sha256(canonical(value)).hexdigest()


def root_of(digests: Iterable[tuple[int, str]]) -> str:
    """Return the SHA-256 over digests in the order of their indices, so that the order of play does not matter."""
    return sha256("".join(digest for _, digest in sorted(digests)).encode()).hexdigest()


_STRICT = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
_LENIENT = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False, default=plain)
