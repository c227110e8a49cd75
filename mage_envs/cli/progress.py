"""Progress of long work: occasional log lines with the remaining time, which every command shows on stderr."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from mage_envs.text.visible import one_line

FIRST_TOLD, TOLD = 2.0, 10.0
"""Seconds of work before the first line, and between later lines."""
REDRAWN = 0.2
"""Seconds between updates of a line that a terminal redraws."""
_LOG = logging.getLogger(__name__)


class Progress:
    """A logger of progress at level INFO, `WHAT: 3 of 10 UNIT, 70 s left.`, and of the end of the work.

    Short work logs nothing, unless `at_once` is set.
    """

    def __init__(self, what: str, total: int, unit: str, at_once: bool = False) -> None:
        """Create a logger of progress.

        Args:
            what: Name of the work, the first words of each line.
            total: Number of units.
            unit: Name of a unit in the plural.
            at_once: True if the first call logs a line, even if the work is short.
        """
        self.done, self.total = 0, total
        self._what, self._unit = one_line(what), unit
        self._began = time.monotonic()
        self._tells = at_once
        self._tell = self._began + (0.0 if at_once else FIRST_TOLD)

    def __call__(self, done: int, total: int | None = None, kept: int = 0) -> None:
        """Update the progress, and log a line if it is time for one.

        Args:
            done: Number of finished units.
            total: New total, if it has changed.
            kept: Number of finished units that an earlier run did.
        """
        self.done, self.total = done, self.total if total is None else total
        now = time.monotonic()
        over = done == self.total
        # The end is logged only after an earlier line. A first line needs a new unit, for its estimate.
        if not self._tells if over else now < self._tell or (done <= kept and not self._tells):
            return
        took = now - self._began
        if over:
            says = f"{took:.1f} s."
        else:
            says = f"{took / (done - kept) * (self.total - done):.0f} s left." if done > kept else "starting."
        before = f"{kept} of them from before, " if kept else ""
        text = f"{self._what}: {done} of {self.total} {self._unit}, {before}{says}"
        _LOG.info(text, extra={"over": over})
        self._tells = True
        redrawn = any(isinstance(handler, _Line) for handler in _LOG.handlers)
        self._tell = now + (REDRAWN if redrawn else TOLD)


class _Line(logging.Handler):
    """A handler that draws one line on a terminal, which the next record replaces until the work is done."""

    def __init__(self) -> None:
        # Imported here, because rich takes longer than a short command, and pipes do not need it.
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        super().__init__()
        self._text = Text
        self._new = partial(Live, console=Console(stderr=True), auto_refresh=False)
        self._live = self._new()

    def emit(self, record: logging.LogRecord) -> None:
        if not self._live.is_started:
            self._live.start()
        # rich also replaces a line that wraps on a narrow terminal.
        self._live.update(self._text(self.format(record)), refresh=True)
        if vars(record).get("over", True):
            # Ends the line, so that it stays above the next one. A reused drawing would replace it.
            self._live.stop()
            self._live = self._new()

    def close(self) -> None:
        self._live.stop()
        super().close()


@contextmanager
def shown() -> Iterator[None]:
    """Show the lines of progress on stderr inside this context."""
    # The level is set on this logger alone, so that other INFO lines stay hidden.
    handler: logging.Handler = _Line() if sys.stderr.isatty() else logging.StreamHandler(sys.stderr)
    before = _LOG.level
    _LOG.addHandler(handler)
    _LOG.setLevel(logging.INFO)
    try:
        yield
    finally:
        _LOG.removeHandler(handler)
        handler.close()
        _LOG.setLevel(before)
