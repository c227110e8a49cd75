"""Ctrl-C and SIGTERM in the program `mage`: one line, also while modules are imported.

Until this module is imported, Ctrl-C ends with a traceback. So it imports next to nothing.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # Type checkers read True. The module typing would be imported for this name alone.
if TYPE_CHECKING:
    from types import FrameType

PROGRAMS = ("mage", "mage-envs")
"""Names of the program. The second one is for users whose `mage` is another package's."""
INTERRUPTED = 130
"""Exit status of a program that Ctrl-C ended: 128 plus the number of SIGINT."""


def is_program() -> bool:
    """Return True if this process is the program `mage`, and not a user's script."""
    # During the import of `python -c` and `python -m` there is no name yet.
    name = os.path.basename(next(iter(sys.argv), ""))
    return os.path.splitext(name)[0] in PROGRAMS


def catch() -> None:
    """Install a handler for Ctrl-C and SIGTERM.

    During imports it ends the process at once, because some imports swallow KeyboardInterrupt or replace it by another
    error. Otherwise it raises KeyboardInterrupt. SIGTERM, which schedulers and `kill` send, does the same, so that it
    keeps everything that Ctrl-C keeps.
    """

    def handle_signal(number: int, frame: FrameType | None) -> None:
        if not _imports(frame):
            raise KeyboardInterrupt
        # Not sys.exit, because an import may swallow its exception. Not sys.stderr, because this may interrupt a write.
        os.write(2, last_line().encode())
        os._exit(INTERRUPTED)

    for kind in (signal.SIGINT, signal.SIGTERM):
        # An ignored signal stays ignored, as under `nohup` or in the background of a shell.
        if signal.getsignal(kind) != signal.SIG_IGN:
            signal.signal(kind, handle_signal)


def last_line() -> str:
    """Return the last line of an interrupted command. If a run has several processes, only the first prints it."""
    return "\nmage: interrupted.\n" if os.environ.get("RANK", "0") == "0" else ""


def _imports(frame: FrameType | None) -> bool:
    """Return True if the frame runs inside an import."""
    while frame is not None and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    return frame is not None
