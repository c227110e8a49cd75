"""The commands. Nothing of the suite is imported before Ctrl-C is caught, so that it ends any of them in one line."""

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
"""Console script to the module whose `main` it runs."""
INTERRUPTED = 130
"""The status of a program that Ctrl-C ended: 128 and the number of SIGINT."""


class OneLineParser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the list of all options; of a misspelt choice, the nearest one."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {' '.join(message.split())} (options: {self.prog} --help)\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            from difflib import get_close_matches

            choices = [str(choice) for choice in action.choices]
            near = get_close_matches(str(value), choices, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise argparse.ArgumentError(action, f"{value!r} is none of {', '.join(choices)}.{hint}")


def starts(package: str) -> None:
    """Called first of all in a package's `__init__`: under `python -m package` Ctrl-C is caught from here on.

    Python imports the package before its `__main__`; meanwhile `sys.argv` begins with `-m`.
    """
    if sys.argv[:1] == ["-m"]:
        asked = sys.orig_argv[sys.orig_argv.index("-m") + 1 :][:1] if "-m" in sys.orig_argv else []
        for name, module in PROGRAMS.items():
            if module == f"{package}.__main__" and asked in ([package], [module]):
                _catch(name)


def _catch(name: str, *, running: bool = False) -> None:
    """Ctrl-C ends the process at once while modules are imported, as some imports swallow KeyboardInterrupt, or make
    another error of it. In a command that is `running` it raises that otherwise.

    SIGTERM does the same: a scheduler's and `kill`'s way to end a command must keep what Ctrl-C keeps."""

    def heed(number: int, frame: FrameType | None) -> None:
        if running and not _imports(frame):
            raise KeyboardInterrupt
        os.write(2, _interrupted(name).encode())
        os._exit(INTERRUPTED)

    for kind in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(kind) != signal.SIG_IGN:  # where it is ignored, it stays ignored
            signal.signal(kind, heed)


def _interrupted(name: str) -> str:
    """Return the last line of an interrupted command; of several processes of one run, only the first prints it."""
    return f"\n{name}: interrupted.\n" if os.environ.get("RANK", "0") == "0" else ""


def _imports(frame: FrameType | None) -> bool:
    """Whether what runs there is part of an import."""
    while frame is not None and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    return frame is not None


def _run(name: str) -> int:
    """The exit status of a command: 130 after Ctrl-C, also while modules are being imported."""
    _catch(name, running=True)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # an ASCII terminal must not cost the result
    try:
        status: int = import_module(PROGRAMS[name]).main()
    except KeyboardInterrupt:
        sys.stderr.write(_interrupted(name))
        return INTERRUPTED
    return status


envs, train, bench, sweep = (partial(_run, name) for name in PROGRAMS)
"""What the console scripts call, in the order of `PROGRAMS`."""
