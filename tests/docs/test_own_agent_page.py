"""docs/own-agent.md as a newcomer walks through it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from tests.test_readme import ROOT, SHELL, blocks, mark_value


def run(words: list[str], folder: Path) -> str:
    """Return what a Python program prints in the folder."""
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=folder, env=env)
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_the_page_runs_as_printed(tmp_path: Path) -> None:
    outputs = []
    for block in blocks(ROOT / "docs" / "own-agent.md"):
        if name := mark_value(block, "file"):
            (tmp_path / name).write_text(block.text + "\n")
        elif block.language == "python":
            run(["-c", block.text], tmp_path)
        elif block.language in SHELL:
            outputs += [
                run(["-P", "-m", "mage_envs", *shlex.split(line)[1:]], tmp_path) for line in block.text.splitlines()
            ]
    played, stored, suite, adapted, scored, replayed = outputs
    # The stored run has the scores of the played one.
    assert played == stored
    assert "my_agent:Notebook" in suite
    assert adapted == scored
    assert "my loop does not measurably adapt" in adapted
    assert "all as recorded" in replayed
    assert (tmp_path / "curve.png").stat().st_size > 1000
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"mine", "kuhn", "loop", "own"}
