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
    page = blocks(ROOT / "docs" / "own-agent.md")
    for block in page:
        if name := mark_value(block, "file"):
            (tmp_path / name).write_text(block.text + "\n")
    commands = [line for block in page if block.language in SHELL for line in block.text.splitlines()]
    outputs = [run(["-P", "-m", "mage_envs", *shlex.split(line)[1:]], tmp_path) for line in commands]
    # The stored run has the scores of the played one.
    assert outputs[0] == outputs[1]
    assert "my_agent:Notebook" in outputs[2]
    programs = [block.text for block in page if block.language == "python" and not mark_value(block, "file")]
    for program in programs:
        run(["-c", program], tmp_path)
    assert (tmp_path / "curve.png").stat().st_size > 1000
    assert (tmp_path / "runs" / "kuhn" / "run.json").exists()
