"""One answer and one small evaluation pass through few files of the project, so that a reader can follow them.

A file counts if one of its functions is called or if it is imported on the way, package files included.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import ROOT, run_python

COUNT = f"""
import sys
ROOT = {str(ROOT)!r} + "/"
files = set()


def count(frame, event, argument):
    name = frame.f_code.co_filename
    if event == "call" and name.startswith(ROOT) and "/.venv" not in name:
        files.add(name.removeprefix(ROOT))
"""

ANSWER = """
import gymnasium as gym
import mage_envs

env = gym.make("mage/KuhnPoker-Meta-v0")
env.reset(seed=1)
env = gym.make("mage/KuhnPoker-Meta-v0")
_, info = env.reset(seed=0)
reply = f"<action>{info['legal_actions'][0]}</action>"
sys.setprofile(count)
env.step(reply)
"""

EVALUATION = """
import gymnasium
import mage_envs
from mage_envs.cli.program import main

command = "eval policy:kuhn/nash --env mage/KuhnPoker-Meta-v0 --opponents kuhn/conservative --rows 2"
sys.setprofile(count)
main(command.split())
"""

LIMITS = {"answer": 15, "evaluation": 128}
"""Maximum number of files. An import inside the function that needs it keeps an evaluation below its limit."""


@pytest.mark.parametrize(("walk", "code"), [("answer", ANSWER), ("evaluation", EVALUATION)])
def test_few_files_are_passed(walk: str, code: str, tmp_path: Path) -> None:
    process = run_python("-c", f"{COUNT}{code}\nsys.setprofile(None)\nprint(*sorted(files))", folder=tmp_path)
    assert process.returncode == 0, process.stderr
    files = process.stdout.splitlines()[-1].split()
    # Fewer would mean that nothing was counted.
    assert LIMITS[walk] // 2 < len(files) <= LIMITS[walk], files
