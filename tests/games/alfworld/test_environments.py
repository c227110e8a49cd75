"""ALFWorld's ids as Gymnasium, PettingZoo and matches see them."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from mage_envs import HandResult, make_game, play_match
from mage_envs.core import is_success
from mage_envs.games.alfworld.game import SETTINGS, ALFWorld
from mage_envs.opponents import make_opponent
from tests.contract import GARBAGE
from tests.games.alfworld.started import SIMPLE, plan

# -- environments -----------------------------------------------------------------------------------------------


def test_rewards():
    task, released = SETTINGS.rewards["task"], SETTINGS.rewards["released"]
    won, lost = [HandResult(1.0, success=True)], [HandResult(0.0, ended_by="timeout")]
    assert [task([], 1), task(won, 1), task(lost, 1)] == [0.0, 10.0, -10.0]
    assert [released([], 1), released(won, 1), released(lost, 1)] == [0.0, 10.0, 0.0]
    assert not is_success(lost)
    assert is_success(won)


@pytest.mark.parametrize(
    ("env_id", "options", "turns"),
    [("v0", {}, 50), ("Meta-v0", {}, 30), ("Meta-v0", {"protocol": "paper"}, 10), ("Meta-v0", {"max_turns": 4}, 4)],
)
def test_limits(env_id, options, turns):
    env = gym.make(f"mage/ALFWorld-{env_id}", size="tiny", **options)
    _, info = env.reset(seed=0)
    answers = 0
    while not (info.get("timeout") or info.get("episode_end")):
        _, _, terminated, _, info = env.step("<action>look</action>" if "Meta" in env_id else "look")
        answers += 1
        assert not info.get("success") or not terminated
    assert (answers, info["timeout"], info["success"]) == (turns, True, False)


@pytest.mark.parametrize(("protocol", "won", "lost"), [("adaptive", 10.0, -10.0), ("paper", 10.0, 0.0)])
def test_a_meta_episode_plays_one_game(protocol, won, lost):
    env = gym.make("mage/ALFWorld-Meta-v0", size="tiny", memory="none", protocol=protocol, max_turns=12)
    first_text, info = env.reset(seed=11, options={"task": SIMPLE})
    assert (info["private"]["task"], info["private"]["category"]) == (SIMPLE, "pick_and_place_simple")
    start, returns, terminated = info["anchor"], [], False
    moves = iter(())
    while not terminated:
        action = "look" if info["episode_index"] == 0 else next(moves)
        _, reward, terminated, _, info = env.step(f"<action>{action}</action>")
        assert info["private"]["task"] == SIMPLE
        if info["episode_end"]:
            returns.append(reward)
            moves = iter(plan())
            assert terminated or info["anchor"] == start
    assert returns == ([lost, won, won] if protocol == "adaptive" else [lost, won])
    assert "Your task is to" in first_text


def test_the_task_stays_in_the_prompt_when_the_window_has_passed_it():
    env = gym.make("mage/ALFWorld-Meta-v0", size="tiny")
    prompt, _ = env.reset(seed=3)
    for _ in range(20):
        assert prompt.count("Your task is to: ") == 1
        prompt, *_ = env.step("<action>look</action>")
    assert "(5 earlier turns are not shown.)" in prompt


def test_base_id_pays_one():
    env = gym.make("mage/ALFWorld-v0", size="tiny")
    _, info = env.reset(seed=0, options={"task": SIMPLE})
    rewards = []
    for command in plan():
        assert info["private"]["metrics"]["plan_length"] == len(plan())
        _, reward, terminated, _, info = env.step(command)
        rewards.append(reward)
    assert rewards == [0.0] * (len(rewards) - 1) + [1.0]
    assert terminated
    assert info["success"]
    assert not info["timeout"]


def test_garbage_spends_turns_and_never_raises():
    env = gym.make("mage/ALFWorld-v0", size="tiny", disable_env_checker=True)
    env.reset(seed=0)
    for number in range(50):
        _, reward, terminated, _, info = env.step(GARBAGE[number % len(GARBAGE)])
        assert (reward, info["invalid_reason"], terminated) == (0.0, "invalid", number == 49)


def test_prompts_speak_of_no_opponent():
    prompt, _ = gym.make("mage/ALFWorld-Meta-v0", size="tiny").reset(seed=1)
    assert "each starts in the same state" in prompt
    assert "opponent" not in prompt


def test_pettingzoo_module():
    from mage_envs.aec import alfworld_v0

    env = alfworld_v0.env(size="tiny")
    env.reset(seed=0)
    expert = make_opponent("alfworld/expert", make_game("ALFWorld", size="tiny"))
    expert.reset(np.random.default_rng(0))
    while not env.terminations["player_0"]:
        env.step(expert.act(env.unwrapped.hand.turn(0)))
    assert env.rewards == {"player_0": 1.0}


def test_a_match_of_one():
    result = play_match(
        ALFWorld(size="tiny"), [make_opponent("alfworld/expert", ALFWorld())], np.random.default_rng(0), hands=3
    )
    assert (result.returns == 1).all()
