"""Games and ways to play them that the tests of the engine share."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from mage_envs.games.alfworld.engine import FastEngine
from mage_envs.games.alfworld.maker import make_game
from mage_envs.games.alfworld.scenes import TASK_TYPES

ROOT = Path(__file__).parents[4]
needs_engine = pytest.mark.skipif(find_spec("fast_downward") is None, reason='needs pip install "mage-envs[alfworld]"')
NONSENSE = ("", " ", "fly", "GO TO", "Look", "go  to", "examine", "\x00", "go to fridge 1\x00", "größer", "{o.name}")
"""Commands that no state admits."""


@cache
def tiny(task_type: str = TASK_TYPES[0], index: int = 0) -> dict[str, object]:
    """A generated game with few objects."""
    return make_game("train", "tiny", task_type, index).data()


def plan(game: dict[str, object]) -> list[str]:
    walkthrough = game["walkthrough"]
    assert isinstance(walkthrough, list)
    return walkthrough


def official_games() -> list[Path]:
    """Yield official game files in sorted order, or none if ALFWORLD_DATA is not set."""
    root = os.environ.get("ALFWORLD_DATA")
    return sorted(Path(root).rglob("game.tw-pddl")) if root else []


def next_command(commands: tuple[str, ...], rng: np.random.Generator) -> str:
    """Return a random command. One in ten is nonsense, and half of the others change more than the view."""
    if rng.random() < 0.1:
        return NONSENSE[rng.integers(len(NONSENSE))]
    idle = ("look", "inventory", "help", "examine")
    active = [command for command in commands if not command.startswith(idle)]
    pool = active if rng.random() < 0.5 and active else commands
    blanks = "  " if rng.random() < 0.1 else ""
    return blanks + pool[rng.integers(len(pool))] + blanks


def transcript(game: dict[str, object], steps: int = 30, seed: int = 0) -> list[tuple[object, ...]]:
    """Random play of the fast engine."""
    rng = np.random.default_rng(seed)
    engine = FastEngine()
    engine.load(game)
    state = engine.reset()
    lines: list[tuple[object, ...]] = [tuple(state)]
    for _ in range(steps):
        state = engine.step(next_command(state.admissible_commands, rng))
        lines.append(tuple(state))
    engine.close()
    return lines


def run_python(code: str, **variables: str | None) -> str:
    """Run `code` in a fresh process, with warnings as errors, and return its output. None unsets a variable."""
    environment = {**os.environ, **{name: value for name, value in variables.items() if value is not None}}
    for name, value in variables.items():
        if value is None:
            environment.pop(name, None)
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert process.returncode == 0, (process.returncode, process.stderr[-3000:])
    assert process.stderr == ""
    return process.stdout
