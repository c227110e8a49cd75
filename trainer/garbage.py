"""Garbage collection while a run records much."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_YOUNG = 100_000
"""New objects between two automatic garbage collections in training."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Makes automatic garbage collection rare: it would go over all that a rollout records again and again."""
    before, *others = gc.get_threshold()
    gc.set_threshold(max(before, _YOUNG) if before else 0, *others)
    try:
        yield
    finally:
        gc.set_threshold(before, *others)
