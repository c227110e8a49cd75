"""PettingZoo: an action outside of the action space is illegal, and never another action."""

from __future__ import annotations

import numpy as np
import pytest

from mage_envs.aec import kuhn_poker_v0, tic_tac_toe_v0, web_shop_v0


@pytest.mark.parametrize(
    "action",
    [-1, -9, 9, 10**30, 1.0, 1.7, float("nan"), "3", "(3, 3)", True, np.True_, None, (1,), [3], np.array([3]), b"1"],
    ids=repr,
)
def test_an_action_outside_of_the_space_ends_the_hand(action):
    env = tic_tac_toe_v0.env()
    env.reset(seed=0)
    env.step(action)
    assert env.unwrapped.hand.moves == []
    assert env.terminations == {"player_0": True, "player_1": True}
    assert env.rewards == {"player_0": -1.0, "player_1": 0.0}


@pytest.mark.parametrize("action", [8, np.int64(8), np.uint8(8), np.array(8)], ids=repr)
def test_what_is_inside_is_played(action):
    env = tic_tac_toe_v0.env()
    env.reset(seed=0)
    env.step(action)
    assert env.unwrapped.hand.moves == ["(3, 3)"]


def test_the_worst_return_is_the_game_s():
    env = kuhn_poker_v0.env()
    env.reset(seed=0)
    env.step("bet")
    assert env.rewards["player_0"] == -2.0


@pytest.mark.parametrize("action", [1, None, b"search[x]"], ids=repr)
def test_free_text_games_take_texts_alone(action):
    env = web_shop_v0.env(size="tiny")
    env.reset(seed=0)
    env.step(action)
    assert env.terminations["player_0"]
