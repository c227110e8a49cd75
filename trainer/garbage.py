"""Garbage collection while a run records much, and at its end."""

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


def end_group() -> None:
    """Ends the group of processes, if there is one, once nobody needs the trainer any more, which is collected first:
    who lets go of Gloo's group last may wait for its threads for ever, as they wait for the interpreter
    (pytorch issue 56297)."""
    from torch import distributed

    if distributed.is_available() and distributed.is_initialized():
        gc.collect()
        distributed.destroy_process_group()
