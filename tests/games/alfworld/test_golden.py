"""Golden playthroughs of a small game of each task type; see tests/test_golden.py.

`python -m tests.games.alfworld.test_golden --write` writes them again, and the digests of the generated games.
"""

from __future__ import annotations

import sys

import gymnasium as gym
import pytest

from mage_envs.games.alfworld.maker import make_game
from mage_envs.games.alfworld.scenes import TASK_TYPES
from tests.games.alfworld.test_maker import GOLDEN, digests
from tests.test_golden import Scene, exchange

SEED = 5


def scene(task_type: str) -> Scene:
    """The walkthrough, with some other commands before it."""
    options = {"size": "tiny", "task_types": task_type}
    env = gym.make("mage/ALFWorld-v0", disable_env_checker=True, **options)
    _, info = env.reset(seed=SEED)
    split, size, _, index = info["private"]["task"].split("/")
    plan = make_game(split, size, task_type, int(index)).walkthrough
    plays = (
        "look",
        "inventory",
        "open the pod bay doors",
        "help",
        *plan[:-1],
        "EXAMINE " + _target_object(plan),
        plan[-1],
    )
    return Scene("mage/ALFWorld-v0", SEED, plays, (), options=options)


def _target_object(plan: tuple[str, ...]) -> str:
    take_command = next(command for command in plan if command.startswith("take "))
    return take_command.removeprefix("take ").partition(" from ")[0]


META = Scene(
    "mage/ALFWorld-Meta-v0",
    2,
    ("<action>look</action>", "no tag", "<action>fly to the moon</action>", "<action>inventory</action>"),
    ("<remark>Search the closed places too.</remark>",),
    options={"size": "tiny", "num_episodes": 2, "max_turns": 4, "memory": "both"},
)
"""Play a failure, a reflection, and the next episode."""


def playthrough(name: str) -> str:
    return exchange(META if name == "meta" else scene(name))


@pytest.mark.parametrize("name", [*TASK_TYPES, "meta"])
def test_playthrough_is_as_recorded(name):
    recorded = (GOLDEN / f"{name}.txt").read_text("utf-8")
    assert playthrough(name) == recorded, "If it is meant: python -m tests.games.alfworld.test_golden --write"
    assert "the end" in recorded
    assert name == "meta" or "success=True" in recorded


def test_every_file_is_used():
    assert {path.stem for path in GOLDEN.glob("*.txt")} == {*TASK_TYPES, "meta", "games"}


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        raise SystemExit("usage: python -m tests.games.alfworld.test_golden --write")
    for name in (*TASK_TYPES, "meta"):
        (GOLDEN / f"{name}.txt").write_text(playthrough(name), "utf-8")
    (GOLDEN / "games.txt").write_text(digests(), "utf-8")
