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
NONSENSE = (
    "",
    " ",
    "fly",
    "GO TO",
    "Look",
    "go  to",
    "examine",
    "\x00",
    "go to fridge 1\x00",
    "größer",
    "{o.name}",
)
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
    """Official game files, sorted; none where ALFWORLD_DATA does not say where they are."""
    root = os.environ.get("ALFWORLD_DATA")
    return sorted(Path(root).rglob("game.tw-pddl")) if root else []


def next_command(commands: tuple[str, ...], rng: np.random.Generator) -> str:
    """A random command: one in ten is nonsense, half of the others change more than what is looked at."""
    if rng.random() < 0.1:
        return NONSENSE[rng.integers(len(NONSENSE))]
    idle = ("look", "inventory", "help", "examine")
    active = [one for one in commands if not one.startswith(idle)]
    chosen = active if rng.random() < 0.5 and active else commands
    blanks = "  " if rng.random() < 0.1 else ""
    return blanks + chosen[rng.integers(len(chosen))] + blanks


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
    """Runs `code` in a fresh process, warnings being errors; returns what it prints. None unsets a variable."""
    environment = {**os.environ, **{name: value for name, value in variables.items() if value is not None}}
    for name, value in variables.items():
        if value is None:
            environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-3000:])
    assert done.stderr == ""
    return done.stdout
