"""`check_id`: contract tests of a text environment, for authors of games, opponents and memories.

    from mage_envs.testing import check_id

    check_id("mage/WaterFireWood-Meta-v0", opponent="wfw/cycle")

A broken rule raises an AssertionError that names it.
"""

from __future__ import annotations

import pickle
import warnings
from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, RecordEpisodeStatistics

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
"""Possible answers of a model, none of which may raise."""
LONGEST = 1000
"""Limit of answers within which an episode must end."""
Seen = tuple[str, float, bool, bool, dict[str, Any]]
"""Return value of one step."""


def check_id(env_id: str, **options: Any) -> None:
    """Check the environment that `gym.make(env_id, **options)` returns."""
    env = gym.make(env_id, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # check_env warns if a space is not a Box, and text spaces never are.
        warnings.filterwarnings("ignore", message=".*For Box (action|observation) spaces.*")
        # A meta-episode is a wrapper by design.
        warnings.filterwarnings("ignore", message=".*is different from the unwrapped version.*")
        check_env(bare(env), skip_render_check=True)
    expected = transcript(env, 7)
    _require(transcript(gym.make(env_id, **options), 7) == expected, "the same seeds and answers gave another episode")
    _check_spec(env)
    _check_copies(env)
    _check_statistics(env)
    _check_garbage(env)


def bare(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """Return the environment without the checkers that `gym.make` adds."""
    while isinstance(env, OrderEnforcing | PassiveEnvChecker):
        env = env.env
    return env


def scripted_reply(info: dict[str, Any], rng: np.random.Generator) -> str:
    """Return a reflection in phase `reflect`, else a legal answer, or an illegal one with probability 0.1."""
    legal = info.get("legal_actions", ())
    if info.get("phase") == "reflect":
        text = "watch the bets"
    else:
        text = legal[int(rng.integers(len(legal)))] if legal and rng.random() < 0.9 else "nonsense"
    tag = info.get("answer_tag")
    return f"<{tag}>{text}</{tag}>" if tag else text


def transcript(env: gym.Env[str, str], seed: int, episodes: int = 2) -> list[Any]:
    """Return everything that a scripted learner sees in some episodes.

    Args:
        env: Environment to play.
        seed: Seed of the learner, and of the first episode. Each later episode adds 1.
        episodes: Number of episodes.
    """
    rng = np.random.default_rng(seed)
    seen: list[Any] = []
    for episode in range(episodes):
        observation, info = env.reset(seed=seed + episode)
        seen += [(observation, info), *_played(env, info, rng)]
    return seen


def _played(env: gym.Env[str, str], info: dict[str, Any], rng: np.random.Generator, most: int = LONGEST) -> list[Seen]:
    """Return the results of at most `most` scripted answers."""
    seen: list[Seen] = []
    done = False
    while not done and len(seen) < most:
        observation, reward, terminated, truncated, info = env.step(scripted_reply(info, rng))
        _require(isinstance(terminated, bool) and isinstance(truncated, bool), "terminated and truncated are no bools")
        _require(env.observation_space.contains(observation), f"{observation!r} is not in the observation space")
        seen.append((observation, float(reward), terminated, truncated, info))
        done = terminated or truncated
    return seen


def _check_spec(env: gym.Env[str, str]) -> None:
    """Check that the spec rebuilds the same environment, as an object and through JSON."""
    spec = env.spec
    if spec is None:
        raise AssertionError("the environment has no spec")
    expected = transcript(env, 3, 1)
    _require(transcript(gym.make(spec), 3, 1) == expected, "gym.make(env.spec) made another environment")
    again = gym.envs.registration.EnvSpec.from_json(spec.to_json())
    _require(transcript(gym.make(again), 3, 1) == expected, "the spec's JSON form made another environment")


def _check_copies(env: gym.Env[str, str]) -> None:
    """Check that a copy made in the middle of an episode continues like the original."""
    # Copies before the first answer and after each of the next ones: a bad copy may not show at the start.
    for answers in range(4):
        for how, copied in (("deepcopy", deepcopy), ("pickle", _pickled)):
            _, info = env.reset(seed=5)
            before = _played(env, info, np.random.default_rng(1), answers)
            if before and (before[-1][2] or before[-1][3]):
                return
            info = before[-1][4] if before else info
            # The original plays on after the copy is made, and must not change anything that the copy holds.
            copy = copied(bare(env))
            goes_on = _played(bare(env), info, np.random.default_rng(2))
            _require(
                _played(copy, info, np.random.default_rng(2)) == goes_on,
                f"a {how} after {answers} answers continued differently",
            )


def _pickled(env: gym.Env[str, str]) -> gym.Env[str, str]:
    copy: gym.Env[str, str] = pickle.loads(pickle.dumps(env))
    return copy


def _check_statistics(env: gym.Env[str, str]) -> None:
    """Check that the environment does not write Gymnasium's own key of `info`, `episode`."""
    counted = RecordEpisodeStatistics(env)
    _, info = counted.reset(seed=1)
    seen = _played(counted, info, np.random.default_rng(1))
    _require("episode" in seen[-1][4], f"no end within {LONGEST} answers")
    stats = seen[-1][4]["episode"]
    _require(stats["l"] == len(seen), "RecordEpisodeStatistics counts other steps")
    _require(bool(np.isclose(stats["r"], sum(row[1] for row in seen))), "RecordEpisodeStatistics counts another return")


def _check_garbage(env: gym.Env[str, str]) -> None:
    """Check that no text raises an exception, and that an episode of garbage ends."""
    env.reset(seed=0)
    for count in range(LONGEST):
        _, reward, terminated, truncated, _ = env.step(GARBAGE[count % len(GARBAGE)])
        _require(bool(np.isfinite(float(reward))), f"the reward is {reward}")
        if terminated or truncated:
            return
    raise AssertionError(f"an episode of garbage did not end within {LONGEST} answers")


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)
