"""The sides of the comparison, and a throwaway virtual environment for each that is not ours."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CHILD = Path(__file__).with_name("child.py")


@dataclass(frozen=True)
class Side:
    """A project that is measured."""

    key: str
    """Its name in `child.SUBJECTS`."""
    name: str
    requirements: tuple[str, ...] = ()
    """What its environment gets from the package index; empty: it runs in ours."""


OURS = Side("ours", "MAGE Envs")
PEERS = (
    Side("gym_sokoban", "gym-sokoban 0.0.6", ("gym-sokoban==0.0.6", "numpy<2", "setuptools<81", "requests")),
    Side("textarena", "TextArena 0.7.4", ("textarena==0.7.4", "numpy")),
    Side("gem", "GEM 0.1.0", ("gem-llm==0.1.0",)),
    Side("open_spiel", "OpenSpiel's Python bot"),
)


class Unavailable(RuntimeError):
    """A side that cannot be measured; the text is one line."""


def interpreter(side: Side, folder: Path) -> Path:
    """The side's Python; makes its environment under `folder` unless it is there complete. Raises Unavailable."""
    if not side.requirements:
        return Path(sys.executable)
    home = folder / side.key
    python, complete = home / "bin" / "python", home / "complete.txt"
    wanted = "\n".join(side.requirements)
    if complete.is_file() and complete.read_text() == wanted:
        return python
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--disable-pip-version-check"]
    for command in ([sys.executable, "-m", "venv", "--clear", "--without-pip", str(home)], [*pip, *side.requirements]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if "error" in line.lower()] or [done.stderr[-200:]]
            raise Unavailable(f"its installation failed: {' '.join(said[0].split())}")
    complete.write_text(wanted)
    return python


class Child:
    """One side's process, which measures on request; started again after it was ended for taking too long."""

    def __init__(self, side: Side, python: Path) -> None:
        self._command = [str(python), str(CHILD), side.key]
        self._environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        self._environment.pop("PYTHONPATH", None)
        if not side.requirements:
            self._environment["PYTHONPATH"] = str(ROOT)
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the child)

    def ask(self, row: str, seconds: float, limit: float) -> dict[str, Any]:
        """One measurement, for `seconds` of CPU time. Raises Unavailable, at the latest after `limit` seconds."""
        process = self._process = self._process or subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=self._environment,
            cwd=tempfile.gettempdir(),
        )
        assert process.stdin is not None
        assert process.stdout is not None
        deadline, line = time.monotonic() + limit, b""
        try:
            process.stdin.write(json.dumps({"row": row, "seconds": seconds}).encode() + b"\n")
            process.stdin.flush()
            while not line.endswith(b"\n"):
                if not select.select([process.stdout], [], [], max(deadline - time.monotonic(), 0))[0]:
                    self.end()
                    raise Unavailable(f"no answer within {limit:g} s")
                part = os.read(process.stdout.fileno(), 65536)
                if not part:
                    raise BrokenPipeError
                line += part
        except BrokenPipeError:
            self.end()
            raise Unavailable(f"its process ended: {self._last_error()}") from None
        reply: dict[str, Any] = json.loads(line)
        if "missing" in reply:
            raise Unavailable(" ".join(str(reply["missing"]).split()))
        return reply

    def _last_error(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"

    def end(self) -> None:
        """Ends the process, if one runs."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def __enter__(self) -> Child:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()
        self._errors.close()
