"""How long work still takes: a line of the log now and then, which every command shows on stderr."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

FIRST_TOLD, TOLD = 2.0, 10.0
"""Seconds of work before the first line, and between further ones."""
_LOG = logging.getLogger(__name__)


class Progress:
    """Says at level INFO how far a piece of work is, `WHAT: 3 of 10 UNIT, 70 s left.`; nothing of one that is short."""

    def __init__(self, what: str, total: int, unit: str) -> None:
        self._what, self._total, self._unit = what, total, unit
        self._began = time.monotonic()
        self._tell = self._began + FIRST_TOLD

    def __call__(self, done: int) -> None:
        """`done` of the total are done."""
        now = time.monotonic()
        if now < self._tell or not 0 < done < self._total:
            return
        left = (now - self._began) / done * (self._total - done)
        _LOG.info("%s: %d of %d %s, %.0f s left.", self._what, done, self._total, self._unit, left)
        self._tell = now + TOLD


@contextmanager
def shown() -> Iterator[None]:
    """Meanwhile such lines go to stderr."""
    handler, before = logging.StreamHandler(), _LOG.level
    _LOG.addHandler(handler)
    _LOG.setLevel(logging.INFO)
    try:
        yield
    finally:
        _LOG.removeHandler(handler)
        _LOG.setLevel(before)
