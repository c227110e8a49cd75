"""Processes of their own, as a reader of the documents starts them."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

ROOT = Path(__file__).parent.parent


def run_python(*arguments: str, folder: Path, path: Sequence[Path] = (ROOT,)) -> subprocess.CompletedProcess[str]:
    """Runs Python in `folder`, with modules from `path`, offline and on one thread."""
    search_path = os.pathsep.join(map(str, path))
    environment = os.environ | {"PYTHONPATH": search_path, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,
        check=False,
        timeout=300,
    )


def run_in_two_processes(code: str) -> str:
    """Return the output of code of the tests, which must be the same here and in a process with another hash seed.

    This process has a hash seed of its own, and caches that earlier tests filled.
    """
    own_output = io.StringIO()
    with redirect_stdout(own_output):
        exec(code, {})
    other_output = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "1", "PYTHONPATH": ".", "PATH": "", "HOME": "/nonexistent"},
        cwd=ROOT,
    ).stdout
    assert own_output.getvalue() == other_output
    return other_output
