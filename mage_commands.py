"""The console commands. Ctrl-C is handled before the suite is imported, so that any command ends with one line."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from functools import partial
from importlib import import_module
from io import TextIOWrapper
from types import FrameType
from typing import Any, NoReturn

PROGRAMS = {
    "mage-envs": "mage_envs.__main__",
    "mage-train": "trainer.__main__",
    "mage-bench": "benchmarks.__main__",
    "mage-sweep": "benchmarks.sweeps.__main__",
}
"""Module of each console script; the script calls its `main`."""
INTERRUPTED = 130
"""Exit status of a program that Ctrl-C ended: 128 plus the number of SIGINT."""


class OneLineParser(argparse.ArgumentParser):
    """A parser with errors of one line, which suggest the nearest name for a misspelt choice."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {' '.join(message.split())} (options: {self.prog} --help)\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            # Imported here, because only this error needs it and every command starts with this module.
            from difflib import get_close_matches

            choices = [str(choice) for choice in action.choices]
            near = get_close_matches(str(value), choices, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise argparse.ArgumentError(action, f"{value!r} must be one of: {', '.join(choices)}.{hint}")


def _catch(name: str) -> None:
    """Install a handler for Ctrl-C and SIGTERM.

    During imports it ends the process at once, because some imports swallow KeyboardInterrupt or replace it by another
    error. Otherwise it raises KeyboardInterrupt. SIGTERM comes from schedulers and from
    `kill`. It does the same, so that it keeps everything that Ctrl-C keeps.
    """

    def heed(number: int, frame: FrameType | None) -> None:
        if not _imports(frame):
            raise KeyboardInterrupt
        # Not sys.exit, because an import may swallow its exception. Not sys.stderr, because this may interrupt a write.
        os.write(2, _interrupted(name).encode())
        os._exit(INTERRUPTED)

    for kind in (signal.SIGINT, signal.SIGTERM):
        # An ignored signal stays ignored, as under `nohup` or in the background of a shell.
        if signal.getsignal(kind) != signal.SIG_IGN:
            signal.signal(kind, heed)


def _interrupted(name: str) -> str:
    """Return the last line of an interrupted command. If a run has several processes, only the first prints it."""
    return f"\n{name}: interrupted.\n" if os.environ.get("RANK", "0") == "0" else ""


def _imports(frame: FrameType | None) -> bool:
    """Return True if the frame runs inside an import."""
    while frame is not None and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    return frame is not None


def _run(name: str) -> int:
    """Run a command and return its exit status: 130 after Ctrl-C, also during imports."""
    _catch(name)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A character that the terminal cannot show must not raise an error and lose the result.
            stream.reconfigure(errors="backslashreplace")
    try:
        status: int = import_module(PROGRAMS[name]).main()
    except KeyboardInterrupt:
        sys.stderr.write(_interrupted(name))
        return INTERRUPTED
    return status


envs, train, bench, sweep = (partial(_run, name) for name in PROGRAMS)
"""Functions of the console scripts, in the order of `PROGRAMS`."""
