"""Source position of a failure: the innermost frame outside Python's standard library."""

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
    """Return the position of a failure from the frames of a traceback, outermost first."""
    return _innermost([(frame.filename, frame.lineno or 0, frame.name) for frame in reversed(frames)])


def place_of_dump(output: str) -> str | None:
    """Return the position from the last dump of `faulthandler`, or None if the output has no dump."""
    # faulthandler dumps the newest thread first, so the main thread, which runs the checks, is last.
    threads = _THREAD.split(output)
    frames = _DUMPED.findall(threads[-1]) if len(threads) > 1 else []
    return _innermost([(file, int(line), name) for file, line, name in frames]) if frames else None


def _innermost(frames: Sequence[tuple[str, int, str]]) -> str:
    for file, line, name in frames:
        # site-packages may be inside the standard library's folder, but packages there count as checked code.
        if not file.startswith((*_STANDARD, "<")) or "site-packages" in file:
            return f"{Path(file).name}:{line} in {name}"
    return "in no file of its own"
