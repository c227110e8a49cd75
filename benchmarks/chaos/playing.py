"""Seeded episodes under observation: every call has a timeout, and every returned value is checked."""

from __future__ import annotations

import faulthandler
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np

from mage_envs.core import BY_THE_RULES, GameSpec, hand_results
from mage_envs.testing import GARBAGE, LONGEST, scripted_reply

Env = gym.Env[Any, Any]
Make = Callable[[], Env]
Reply = Callable[[dict[str, Any], np.random.Generator], str]
"""Function from `info` and a random generator to the reply to a prompt."""
EPISODES = 2
"""Consecutive episodes per environment. The second one shows if the first one left any state behind."""
ODD = (
    *("²", "٣", "ﬁ", "1_0", "nan", "inf", "-1", "1e999", "9" * 40, "0x1"),
    *("None", "[]", "(" * 3000, "(0, 0, 0)", "\u0000"),
)
"""Replies that parsers often accept by mistake: odd numbers, Python literals, deep brackets and a NUL."""
ALONE, SPOILING = "alone", "spoiling"


class Finding(Exception):
    """Failure that a check found; the message is one line."""


@contextmanager
def watch(seconds: float) -> Iterator[None]:
    """End the process and dump its stack to stderr if the block takes longer than `seconds`."""
    # faulthandler's timer runs in a C thread, so that it also ends a loop of compiled code.
    faulthandler.dump_traceback_later(seconds, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


class Watched(gym.Wrapper[Any, Any, Any, Any]):
    """Wrapper that limits the time of each `reset` and `step` and checks the returned values."""

    def __init__(self, env: Env, deadline: float) -> None:
        super().__init__(env)
        self._deadline = deadline
        self._facts: GameSpec | None = env.get_wrapper_attr("game_spec") if env.has_wrapper_attr("game_spec") else None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Reset the environment and check the observation and the info. Raise Finding if a check fails."""
        with watch(self._deadline):
            observation, info = self.env.reset(seed=seed, options=options)
        self._look_at(observation, info)
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Step the environment and check all returned values. Raise Finding if a check fails."""
        with watch(self._deadline):
            observation, reward, terminated, truncated, info = self.env.step(action)
        self._look_at(observation, info)
        if not math.isfinite(float(reward)):
            raise Finding(f"the reward is {reward}")
        if not isinstance(terminated, bool) or not isinstance(truncated, bool):
            raise Finding(f"terminated and truncated must be bools, got {terminated!r} and {truncated!r}")
        return observation, reward, terminated, truncated, info

    def _look_at(self, observation: Any, info: Mapping[str, Any]) -> None:
        if not self.observation_space.contains(observation):
            raise Finding(f"the observation {shortened(observation)} is not in the observation space")
        for result in hand_results(info):
            value = result.value
            if not math.isfinite(value):
                raise Finding(f"the return of a hand is {value}")
            facts = self._facts
            # The facts bound only the returns that the rules produce, not those of hands that were cut off.
            if facts and result.ended_by == BY_THE_RULES and not facts.min_return <= value <= facts.max_return:
                raise Finding(
                    f"the return of a hand is {value}; the facts say {facts.min_return} to {facts.max_return}"
                )


class FuzzedReplies:
    """Replies that alternate at random between legal actions and odd texts, alone or mixed into a legal action.

    Half of the replies are legal, so that the episode makes progress. `left` is empty when every text was sent.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        texts = (*GARBAGE, *ODD)
        self.left = [(texts[index], way) for index in rng.permutation(len(texts)) for way in (ALONE, SPOILING)]

    def __call__(self, info: dict[str, Any], rng: np.random.Generator) -> str:
        if not self.left or rng.random() < 0.5:
            return scripted_reply(info, rng)
        text, way = self.left.pop()
        if way == SPOILING:
            legal = info.get("legal_actions") or ("x",)
            one = legal[int(rng.integers(len(legal)))]
            cut = int(rng.integers(len(one) + 1))
            ways = (
                one.upper(),
                one[::-1],
                one * 50,
                one + text[:50],
                text[:50] + one,
                one[:cut] + text[:9] + one[cut:],
            )
            text = ways[int(rng.integers(len(ways)))]
        tag = info.get("answer_tag")
        return f"<{tag}>{text}</{tag}>" if tag and rng.random() < 0.7 else text


def rows_of(env: Env, seed: int, reply: Reply = scripted_reply) -> Iterator[str]:
    """Play an episode and yield one comparable text for `reset` and for each step.

    Args:
        env: The environment to play in.
        seed: Seed of the environment and of the replies.
        reply: Function that returns the reply to a prompt.

    Raises:
        Finding: If the episode does not end within `LONGEST` replies.
    """
    rng = np.random.default_rng(seed)
    observation, info = env.reset(seed=seed)
    yield text_of((observation, info))
    yield from rest_of(env, info, rng, reply)


def rest_of(env: Env, info: dict[str, Any], rng: np.random.Generator, reply: Reply = scripted_reply) -> Iterator[str]:
    """Play the rest of an episode that was already reset, and yield one comparable text per step.

    Args:
        env: The environment, after `reset` or some steps.
        info: The last `info` that the environment returned.
        rng: Source of randomness of the replies.
        reply: Function that returns the reply to a prompt.

    Raises:
        Finding: If the episode does not end within `LONGEST` replies.
    """
    for _ in range(LONGEST):
        observation, reward, terminated, truncated, info = env.step(reply(info, rng))
        yield text_of((observation, float(reward), terminated, truncated, info))
        if terminated or truncated:
            return
    raise Finding(f"an episode did not end within {LONGEST} replies")


def episodes_of(make: Make, seed: int, reply: Reply = scripted_reply) -> list[str]:
    """Return the rows of `EPISODES` consecutive episodes of a new environment.

    Args:
        make: Function that makes the environment.
        seed: Seed of the first episode; later episodes add 1 each.
        reply: Function that returns the reply to a prompt.
    """
    env = make()
    return [row for episode in range(EPISODES) for row in rows_of(env, seed + episode, reply)]


def require_equal(rows: Sequence[str], expected: Sequence[str], what: str) -> None:
    """Raise Finding if the rows differ from the expected ones.

    Args:
        rows: The rows to check.
        expected: The rows that they must equal.
        what: Beginning of the message, which then shows the first difference.
    """
    if list(rows) == list(expected):
        return
    # A row after the last one, so that a shorter transcript differs at its end.
    found, wanted = [*rows, "the end"], [*expected, "the end"]
    first = next(index for index, pair in enumerate(zip(found, wanted, strict=False)) if pair[0] != pair[1])
    one, other = found[first], wanted[first]
    same = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    # Rows may have thousands of characters, so only the surroundings of the first difference are shown.
    begin = max(0, same - 20)
    raise Finding(f"{what}: row {first} has {shortened(one[begin:])} instead of {shortened(other[begin:])}")


def shortened(value: Any, most: int = 60) -> str:
    """Return the repr of a value, cut to `most` characters."""
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}…"


def text_of(value: Any) -> str:
    """Return a text that is equal if the values are equal, in any process: no addresses, no order of sets."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {text_of(held)}" for key, held in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "(" + ", ".join(map(text_of, value)) + ")"
    if isinstance(value, set | frozenset):
        return "{" + ", ".join(sorted(map(text_of, value))) + "}"
    if isinstance(value, np.ndarray | np.generic):
        return text_of(value.tolist())
    if value is None or isinstance(value, str | bytes | bool | int | float):
        return repr(value)
    return type(value).__name__
