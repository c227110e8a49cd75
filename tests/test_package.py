"""A package of somebody else: built and installed by pip from what docs/extending.md shows, then found by its name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_readme import ROOT, blocks, marked

PAGE = ROOT / "docs" / "extending.md"
PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "my-games"
version = "0.1"

[tool.hatch.build.targets.wheel]
only-include = ["my_games.py"]
"""
SCRIPT = """
import gymnasium as gym
import mage_envs
from opponents import list_opponents

assert "RockPaperScissors" in mage_envs.list_games()
assert "rps/always-rock" in list_opponents("RockPaperScissors")
for kind in ("v0", "Meta-v0"):
    env = gym.make(f"mage/RockPaperScissors-{kind}", opponent="rps/always-rock", seat="second")
    observation, info = env.reset(seed=1)
    done = False
    while not done:
        reply = "paper" if kind == "v0" else "<action>paper</action>"
        reply = "<remark>paper</remark>" if info.get("phase") == "reflect" else reply
        observation, reward, done, _, info = env.step(reply)
    assert info["success"], observation
import my_games
print(my_games.__file__)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that pip installed the package into; no index is asked."""
    source, target = tmp_path_factory.mktemp("package"), tmp_path_factory.mktemp("site")
    page = blocks(PAGE)
    code = next(block for block in page if marked(block, "file") == "my_games.py")
    points = next(block for block in page if block.language == "toml")
    (source / "my_games.py").write_text(code.text + "\n")
    (source / "pyproject.toml").write_text(PROJECT + points.text + "\n")
    command = [
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
        "--target",
        target,
        source,
    ]
    subprocess.run([sys.executable, "-m", *map(str, command)], check=True, capture_output=True, text=True)
    return target


def test_an_installed_package_announces_its_game_and_its_opponents(site: Path, tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{site}"},
    )
    assert found.returncode == 0, found.stderr
    assert Path(found.stdout.strip()).parent == site


def test_without_it_nothing_is_announced(tmp_path: Path) -> None:
    script = "import mage_envs; print(mage_envs.list_games())"
    found = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert "RockPaperScissors" not in found.stdout
