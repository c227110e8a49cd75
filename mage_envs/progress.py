"""Progress of long work: occasional log lines with the remaining time, and the line that shows them on stderr."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

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

    def __init__(self, label: str, total: int, unit: str, at_once: bool = False) -> None:
        """Create a logger of progress.

        Args:
            label: Name of the work, the first words of each line.
            unit: Name of a unit in the plural.
            at_once: True if the first call logs a line, even if the work is short.
        """
        self.done, self.total = 0, total
        self._label, self._unit = one_line(label), unit
        self._began = time.monotonic()
        self._tells = at_once
        self._tell = self._began + (0.0 if at_once else FIRST_TOLD)

    def __call__(self, count: int, total: int | None = None, earlier_count: int = 0, tokens: int = 0) -> None:
        """Update the progress, and log a line if it is time for one.

        Args:
            count: Number of finished units.
            total: New total, if it has changed.
            earlier_count: Number of finished units that an earlier run did.
            tokens: Number of tokens that a model has read and written. It shows that a long first unit goes on.
        """
        self.done, self.total = count, self.total if total is None else total
        current_time = time.monotonic()
        over = count == self.total
        # The end is logged only after an earlier line. A first line needs a new unit, for its estimate.
        if not self._tells if over else current_time < self._tell or (count <= earlier_count and not self._tells):
            return
        took = current_time - self._began
        if over:
            says = f"{took:.1f} s."
        else:
            new = count - earlier_count
            says = f"{took / new * (self.total - count):.0f} s left." if new > 0 else "starting."
        earlier_text = f"{earlier_count} of them from before, " if earlier_count else ""
        used = f"{tokens:,} tokens, " if tokens else ""
        text = f"{self._label}: {count} of {self.total} {self._unit}, {earlier_text}{used}{says}"
        _LOG.info(text, extra={"over": over})
        self._tells = True
        redrawn = any(isinstance(handler, _LineHandler) and handler.line.is_live for handler in _LOG.handlers)
        self._tell = current_time + (REDRAWN if redrawn else TOLD)


class ProgressLine:
    """A line that rich draws on a terminal, and that the next line replaces. Other streams get only whole lines."""

    def __init__(self, stream: TextIO | None = None, redrawn: bool = True) -> None:
        """Create a line.

        Args:
            stream: Stream to write to (default: stderr).
            redrawn: False to write only whole lines, as to a pipe.
        """
        self._stream = sys.stderr if stream is None else stream
        self._drawn_at = 0.0
        self.is_live = redrawn and self._stream.isatty()
        if self.is_live:
            # Imported here, because rich takes longer than a short command, and pipes do not need it.
            from rich.console import Console
            from rich.live_render import LiveRender
            from rich.text import Text

            self._console, self._text, self._new = Console(file=self._stream), Text, LiveRender
            self._shown = self._new("")
            self.is_live = not self._console.is_dumb_terminal

    def __call__(self, text: str, is_whole: bool) -> None:
        """Write a whole line, or draw the line of unfinished work."""
        (self.write if is_whole else self.draw)(text)

    def draw(self, text: str) -> None:
        """Draw the line of unfinished work on a terminal, unless the last one is newer than `REDRAWN` seconds."""
        if self.is_live and time.monotonic() - self._drawn_at > REDRAWN:
            self._drawn_at = time.monotonic()
            # Erases all rows of the last line, which wraps on a narrow terminal.
            self._console.control(self._shown.position_cursor())
            self._shown.set_renderable(self._text(text))
            self._console.print(self._shown, end="")

    def erase(self) -> None:
        """Erase the line, so that the next output begins in its place."""
        if self.is_live:
            self._console.control(self._shown.position_cursor())
            # A new one has no rows to erase.
            self._shown = self._new("")

    def write(self, text: str) -> None:
        """Write a whole line in place of the line of unfinished work."""
        self.erase()
        if self.is_live:
            self._console.print(self._text(text))
        else:
            self._stream.write(f"{text}\n")
            self._stream.flush()


class _LineHandler(logging.Handler):
    """A handler that passes the records of `Progress` to a line."""

    def __init__(self) -> None:
        super().__init__()
        self.line = ProgressLine()

    def emit(self, record: logging.LogRecord) -> None:
        self.line(self.format(record), is_whole=not self.line.is_live or vars(record).get("over", True))


@contextmanager
def show_lines() -> Iterator[None]:
    """Show the lines of progress on stderr inside this context."""
    # The level is set on this logger alone, so that other INFO lines stay hidden.
    handler = _LineHandler()
    previous_level = _LOG.level
    _LOG.addHandler(handler)
    _LOG.setLevel(logging.INFO)
    try:
        yield
    finally:
        _LOG.removeHandler(handler)
        # A line of unfinished work would get the first line of an error or a table appended.
        handler.line.erase()
        _LOG.setLevel(previous_level)
