"""Sides of the comparison, and a temporary virtual environment for each peer."""

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
    """Project that is measured."""

    key: str
    """Name in `child.SUBJECTS`."""
    name: str
    requirements: tuple[str, ...] = ()
    """Packages to install in its virtual environment. If empty, the side runs in ours."""


OURS = Side("ours", "MAGE Envs")
PEERS = (
    Side("gym_sokoban", "gym-sokoban 0.0.6", ("gym-sokoban==0.0.6", "numpy<2", "setuptools<81", "requests")),
    Side("textarena", "TextArena 0.7.4", ("textarena==0.7.4", "numpy")),
    Side("gem", "GEM 0.1.0", ("gem-llm==0.1.0",)),
    Side("open_spiel", "OpenSpiel's Python bot"),
)


class Unavailable(RuntimeError):
    """Error of a side that cannot be measured. The message is one line."""


def interpreter(side: Side, folder: Path) -> Path:
    """Return the side's Python. Its virtual environment is made under `folder` unless it is already complete.

    Raises:
        Unavailable: If the installation fails.
    """
    if not side.requirements:
        return Path(sys.executable)
    home = folder / side.key
    python, complete = home / "bin" / "python", home / "complete.txt"
    # `complete.txt` is written last, so that an interrupted installation is not reused.
    requirements = "\n".join(side.requirements)
    if complete.is_file() and complete.read_text() == requirements:
        return python
    # Our pip installs into the other environment by --python, which is faster than installing pip there first.
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--disable-pip-version-check"]
    for command in ([sys.executable, "-m", "venv", "--clear", "--without-pip", str(home)], [*pip, *side.requirements]):
        process = subprocess.run(command, capture_output=True, text=True)
        if process.returncode:
            errors = [line for line in process.stderr.splitlines() if "error" in line.lower()] or [
                process.stderr[-200:]
            ]
            raise Unavailable(f"its installation failed: {' '.join(errors[0].split())}")
    complete.write_text(requirements)
    return python


class Child:
    """Process of one side, which measures on request. If a timeout ended it, the next request starts it again."""

    def __init__(self, side: Side, python: Path) -> None:
        self._command = [str(python), str(CHILD), side.key]
        self._environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        # Our own packages must not shadow the peer's.
        self._environment.pop("PYTHONPATH", None)
        if not side.requirements:
            self._environment["PYTHONPATH"] = str(ROOT)
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the child)

    def ask(self, row: str, seconds: float, limit: float) -> dict[str, Any]:
        """Return one measurement.

        Args:
            seconds: CPU seconds of the measurement.

        Raises:
            Unavailable: If the process fails, reports an error, or does not reply within `limit` seconds.
        """
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
            # `select` and `os.read` instead of `readline`, which would wait forever for a process that hangs.
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
        """End the process if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def __enter__(self) -> Child:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()
        self._errors.close()
