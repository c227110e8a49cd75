"""The words of ALFWorld's texts: what they leave out, and that the list of them is whole."""

from __future__ import annotations

import os
from collections.abc import Iterator

import gymnasium as gym
import numpy as np
import pytest

from mage_envs.core import Turn
from mage_envs.games.alfworld.words import all_words, read_words
from mage_envs.opponents import make_opponent
from tests.packages import mark_params


def test_a_text_keeps_its_objects_places_and_numbers() -> None:
    text = "You arrive at fridge 1. The fridge 1 is open. In it, you see a egg 2, and a tomato 1."
    assert " ".join(read_words(text, 0)) == "arrive fridge 1 fridge 1 open egg 2 tomato 1"
    task = "You are in the middle of a room.\nYour task is to: put some hot bread in garbagecan."
    assert read_words(task, 0) == ("task", "put", "hot", "bread", "garbagecan")


def prompts(player: str, games: int, **options: object) -> Iterator[str]:
    """Words of the prompts and of the legal actions in meta-episodes of a player, or of random play."""
    env = gym.make("mage/ALFWorld-Meta-v0", style="words", memory="history", num_episodes=1, max_turns=12, **options)
    policy = make_opponent(player, env.get_wrapper_attr("game")) if player else None
    rng = np.random.default_rng(0)
    for seed in range(games):
        text, info = env.reset(seed=seed)
        if policy is not None:
            policy.on_meta_episode_start()
            policy.reset(rng)
        over = False
        while not over:
            legal = info["legal_actions"]
            yield from text.split()
            yield from " ".join(legal).split()
            action = policy.act(Turn.from_info(info, text)) if policy else legal[int(rng.integers(len(legal)))]
            text, _, terminated, truncated, info = env.step(action)
            over = terminated or truncated


FIXED = {"episode", "first", "success", "failure", "illegal", "timeout"}


@pytest.mark.parametrize("player", mark_params(["alfworld/expert", ""], step=2))
def test_no_word_of_a_generated_game_is_unknown(player: str) -> None:
    seen = set(prompts(player, 12))
    assert len(seen) > 60
    assert seen <= {*all_words(), *FIXED}


@pytest.mark.skipif("ALFWORLD_DATA" not in os.environ, reason="ALFWORLD_DATA does not name the official data")
def test_no_word_of_an_official_game_is_unknown() -> None:
    for split in ("valid_seen", "valid_unseen"):
        assert set(prompts("alfworld/expert", 6, split=split, data="official")) <= {*all_words(), *FIXED}
