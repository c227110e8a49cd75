"""One short game and its plan, for the tests of ALFWorld."""

from __future__ import annotations

import numpy as np

from mage_envs.games.alfworld.game import ALFWorld
from mage_envs.games.alfworld.maker import make_game as made

SIMPLE = "train/tiny/pick_and_place_simple/0"


def start_task(task=SIMPLE, **options):
    return ALFWorld(size="tiny", **options).task_state(task, np.random.default_rng(0))


def plan(task=SIMPLE):
    split, size, task_type, index = task.split("/")
    return made(split, size, task_type, int(index)).walkthrough
