"""Garbage collection during a run, and at its end."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_YOUNG = 100_000
"""New objects between two automatic garbage collections during training."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Make automatic garbage collection rare within the context."""
    # A collection traverses all live objects. A rollout creates many records and drops none, so most would be useless.
    young_threshold, *others = gc.get_threshold()
    # A threshold of 0 means that the user disabled the collector.
    gc.set_threshold(max(young_threshold, _YOUNG) if young_threshold else 0, *others)
    try:
        yield
    finally:
        gc.set_threshold(young_threshold, *others)


def end_group() -> None:
    """Destroy the process group, if there is one, after the last use of the trainer."""
    from torch import distributed

    if distributed.is_available() and distributed.is_initialized():
        # Collect the trainer first. If it dropped the last reference to Gloo's group later, it could wait forever for
        # the group's threads, because they wait for the interpreter (pytorch issue 56297).
        gc.collect()
        distributed.destroy_process_group()
