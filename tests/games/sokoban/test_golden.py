"""A golden meta-episode of Sokoban; see tests/test_golden.py. `python -m tests.games.sokoban.test_golden --write`."""

from __future__ import annotations

import sys

import pytest

from tests.games.sokoban.test_rooms import GOLDEN, golden_levels
from tests.test_golden import Scene, exchange

SCENES = {
    "meta": Scene(
        "mage/Sokoban-Meta-v0",
        87,
        (
            "<action>up, up, left</action>",
            "no tag",
            "<action>jump</action>",
            "<action>UP,down</action>",
            "<action>left, left, left, left</action>",
            "<action>right</action>",
            "<action>down, down</action>",
            "<action>down, right, right</action>",
            "<action>up, left, down</action>",
            "<action>left, up, right</action>",
        ),
        ("<remark>Look where the boxes can still go.</remark>",),
        options={"num_episodes": 2, "max_moves": 9, "memory": "both"},
    ),
    "base": Scene("mage/Sokoban-v0", 2, ("left, down", "up", "push", "right, right, right"), (), options={"boxes": 1}),
}


@pytest.mark.parametrize("name", sorted(SCENES))
def test_playthrough_is_as_recorded(name):
    recorded = (GOLDEN / f"{name}.txt").read_bytes()
    assert exchange(SCENES[name]).encode() == recorded, (
        "If it is meant: python -m tests.games.sokoban.test_golden --write"
    )


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        raise SystemExit("usage: python -m tests.games.sokoban.test_golden --write")
    for scene in SCENES:
        (GOLDEN / f"{scene}.txt").write_bytes(exchange(SCENES[scene]).encode())
    (GOLDEN / "levels.txt").write_bytes(golden_levels().encode())
