"""The oracle carries out the plan by construction: every generated game is won, in the fewest commands."""

from __future__ import annotations

import numpy as np
import pytest

from mage_envs import make_game
from mage_envs.benchmarks import evaluate, make_agent, panel
from mage_envs.core import Turn
from mage_envs.games.alfworld.game import ALFWorld
from mage_envs.games.alfworld.maker import SPLITS, task_ids
from mage_envs.games.alfworld.scenes import TASK_TYPES
from mage_envs.hand import Hand, open_table
from mage_envs.opponents import make_opponent
from mage_envs.random.streams import Streams
from tests.packages import mark_params


def wins_task(game: ALFWorld, task: str) -> bool:
    """Return True if the oracle wins the game within its plan."""
    oracle = make_opponent("alfworld/oracle", make_game("ALFWorld", split=game.split))
    hand = Hand(game)
    hand.begin_episode(Streams(0), task_id=task)
    hand.deal(open_table(1))
    oracle.reset(np.random.default_rng(0))
    plan = game.plan(task)
    assert plan
    for _ in plan:
        hand.play(oracle.act(hand.turn(0)))
    return hand.over and hand.state.won(0)


@pytest.mark.parametrize("split", mark_params(SPLITS, step=3))
@pytest.mark.parametrize("size", ["tiny", "official-like"])
def test_it_wins_games_of_every_type(split, size):
    game = ALFWorld(split, size=size)
    for task_type in TASK_TYPES:
        assert wins_task(game, f"{split}/{size}/{task_type}/1")


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
def test_it_wins_every_game_of_the_evaluation_splits_and_a_sixth_of_train(split):
    game = ALFWorld(split)
    tasks = task_ids(split, "official-like")
    for task in tasks if len(tasks) < 1000 else tasks[::6]:
        assert wins_task(game, task), task


def test_it_is_an_agent_like_any_other():
    tasks = panel("mage/ALFWorld-Meta-v0", (None,), 12, 5)
    trajectories = evaluate(make_agent("policy:alfworld/oracle"), tasks, {"size": "tiny", "protocol": "paper"})
    assert all(t.failure is None and t.episodes[0].success for t in trajectories)
    assert all(t.episodes[0].metrics["commands"] == t.episodes[0].metrics["plan_length"] for t in trajectories)


def test_without_a_plan_it_looks():
    oracle = make_opponent("alfworld/oracle", make_game("ALFWorld"))
    oracle.reset(np.random.default_rng(0))
    assert oracle.act(Turn(0, "", (), "")) == "look"
    with pytest.raises(ValueError, match="'alfworld/oracle' plays ALFWorld, not Sokoban"):
        make_opponent("alfworld/oracle", make_game("Sokoban"))
