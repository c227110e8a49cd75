"""Where in the checked code something happened: the innermost line that is not Python's own."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from traceback import FrameSummary

_STANDARD = tuple(sysconfig.get_paths()[kind] for kind in ("stdlib", "platstdlib"))
_DUMPED = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)
_THREAD = re.compile(r"^(?:Current thread|Thread) .*$", re.MULTILINE)


def place_of(frames: Sequence[FrameSummary]) -> str:
    """Of a traceback, the outermost frame first."""
    return _innermost([(frame.filename, frame.lineno or 0, frame.name) for frame in reversed(frames)])


def place_of_dump(output: str) -> str | None:
    """Of what `faulthandler` wrote last; None where it wrote nothing."""
    threads = _THREAD.split(output)
    frames = _DUMPED.findall(threads[-1]) if len(threads) > 1 else []
    return _innermost([(file, int(line), name) for file, line, name in frames]) if frames else None


def _innermost(frames: Sequence[tuple[str, int, str]]) -> str:
    for file, line, name in frames:
        if not file.startswith((*_STANDARD, "<")) or "site-packages" in file:
            return f"{Path(file).name}:{line} in {name}"
    return "in no file of its own"
