"""What every id with every fitting opponent must satisfy; imported by the contract tests and by newcomers' tests."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils.env_checker import check_env

from mage_envs import list_games, load_game, make_game
from opponents import list_opponents, make_opponent
from opponents.openspiel import DoesNotSuit

GARBAGE = (
    "",
    " ",
    "\n\t\r",
    "\x00\x01\x7f",
    "<action>",
    "</action>",
    "<action></action>",
    "</think>",
    "<think>",
    "<action>\u202e\U0001f600</action>",
    "\ud800",
    "İıſ<ACTION>K</AcTiOn>",
    "action",
    "{}",
    "%s%n",
    "a" * 100_000,
    "<action>" * 20_000,
    "</think>" * 20_000,
    "<action>bet</action>" * 5_000,
    "1" * 5000,
    "(0, 0)",
    "(9, 9)",
)
OPTIONS: dict[str, dict[str, Any]] = {"ALFWorld": {"size": "tiny"}, "WebShop": {"size": "tiny"}}
"""Options with which a game is quick to check."""
HEAVY = {"mcts": "mcts:20", "ismcts": "ismcts:5", "cfr": "cfr:3", "cfr-argmax": "cfr-argmax:3"}
"""Opponents whose work is their argument, with a small one."""


def suits(name: str, game: str) -> bool:
    """Whether an opponent of a game whose form its options decide plays the form without options."""
    try:
        make_opponent(name, make_game(game))
    except DoesNotSuit:
        return False
    return True


def opponents_of(game: str) -> list[str]:
    """Every registered opponent that fits, searches with a small budget; one that is exchanged for another."""
    names = [name for name in (HEAVY.get(name, name) for name in list_opponents(game)) if suits(name, game)]
    return [*names, f"switch:{names[0]},{names[-1]},1"]


def pairs() -> list[tuple[str, str]]:
    """(game, opponent) for everything registered that has a seat for one."""
    return [(game, name) for game in list_games() if load_game(game).num_players > 1 for name in opponents_of(game)]


def scripted_reply(info: dict[str, Any], meta: bool, rng: np.random.Generator) -> str:
    """A legal, illegal or reflecting reply."""
    if info.get("phase") == "reflect":
        return "<remark>watch the bets</remark>"
    legal = info["legal_actions"]
    action = legal[int(rng.integers(len(legal)))] if legal and rng.random() < 0.9 else "nonsense"
    return f"<action>{action}</action>" if meta else action


def transcript(env: gym.Env[str, str], seed: int, episodes: int = 2) -> list[Any]:
    """Everything that a scripted learner sees in some episodes."""
    meta = "Meta" in env.spec.id if env.spec else False
    rng = np.random.default_rng(seed)
    seen: list[Any] = []
    for episode in range(episodes):
        observation, info = env.reset(seed=seed + episode)
        seen.append((observation, info))
        done = False
        while not done:
            observation, reward, terminated, truncated, info = env.step(scripted_reply(info, meta, rng))
            assert isinstance(terminated, bool)
            assert isinstance(truncated, bool)
            assert env.observation_space.contains(observation)
            seen.append((observation, float(reward), terminated, truncated, info))
            done = terminated or truncated
    return seen


def check_id(env_id: str, **kwargs: Any) -> None:
    """The whole contract of one id."""
    kwargs = OPTIONS.get(env_id.split("/")[1].split("-")[0], {}) | kwargs
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # check_env warns of everything that is not a Box; a text environment is not one.
        warnings.filterwarnings("ignore", message=".*For Box (action|observation) spaces.*")
        # A meta-episode is a wrapper by design.
        warnings.filterwarnings("ignore", message=".*is different from the unwrapped version.*")
        env = gym.make(env_id, **kwargs)
        check_env(env.unwrapped if "Meta" not in env_id else inner_wrapper(env), skip_render_check=True)
    assert transcript(gym.make(env_id, **kwargs), 7) == transcript(gym.make(env_id, **kwargs), 7)
    check_round_trip(env)
    check_garbage(env)


def inner_wrapper(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """The MetaEpisode below Gymnasium's own wrappers, which check_env refuses."""
    from trainer.rollout import meta_episode

    return meta_episode(env)


def check_round_trip(env: gym.Env[str, str]) -> None:
    """The spec rebuilds the same environment, as an object and through JSON."""
    spec = env.spec
    assert spec is not None
    expected = transcript(env, 3, 1)
    assert transcript(gym.make(spec), 3, 1) == expected
    assert transcript(gym.make(gym.envs.registration.EnvSpec.from_json(spec.to_json())), 3, 1) == expected


def check_garbage(env: gym.Env[str, str]) -> None:
    """No text raises, and every episode of garbage ends."""
    env.reset(seed=0)
    done, count = False, 0
    while not done:
        _, reward, terminated, truncated, _ = env.step(GARBAGE[count % len(GARBAGE)])
        assert np.isfinite(reward)
        done, count = terminated or truncated, count + 1
        assert count < 1000
