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
    found = os.pathsep.join(map(str, path))
    environment = os.environ | {"PYTHONPATH": found, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,
        check=False,
        timeout=300,
    )


def told_by_two(code: str) -> str:
    """What code of the tests prints, which this process and one with another hash seed must agree on.

    This process has a hash seed of its own, and what earlier tests left in its caches.
    """
    here = io.StringIO()
    with redirect_stdout(here):
        exec(code, {})
    other = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "1", "PYTHONPATH": ".", "PATH": "", "HOME": "/nonexistent"},
        cwd=ROOT,
    ).stdout
    assert here.getvalue() == other
    return other
