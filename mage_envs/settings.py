"""Settings of prompts and training for a game: windows, penalties, limits, rewards and the default opponent.

They are not rules. Each game has one `GameSettings`, and `gym.make(settings=...)` replaces it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import Any

from mage_envs.core import HandResult
from mage_envs.loading.imports import import_path, load_function

EpisodeReward = Callable[[Sequence[HandResult], int], float]
"""Function from the finished hands and the number of planned hands to the task reward R so far.

It must return 0 for no hands. The reward of one hand is the difference that the hand makes.
"""


def outcome_reward(hands: Sequence[HandResult], planned: int) -> float:
    """Return +10 for a positive episode total, -10 for a negative one, else 0 or NaN (docs/method.md, section 2)."""
    total = sum(hand.value for hand in hands)
    # NaN compares as neither positive nor negative, and must not become a draw.
    if isnan(total):
        return total
    if total > 0:
        return 10.0
    return -10.0 if total < 0 else 0.0


def success_reward(hands: Sequence[HandResult], planned: int) -> float:
    """Return +10 if every hand so far is a success by the game's own verdict (`State.won`), else -10."""
    # `all` of no hands is True, but `EpisodeReward` must return 0 there.
    if not hands:
        return 0.0
    return 10.0 if all(hand.success for hand in hands) else -10.0


def success_or_nothing(hands: Sequence[HandResult], planned: int) -> float:
    """Return 10 if every hand so far is a success, else 0, as the released code pays for tasks."""
    return max(success_reward(hands, planned), 0.0)


def total_reward(hands: Sequence[HandResult], planned: int) -> float:
    """Return the sum of the hands' returns, in the game's own unit."""
    return float(sum([hand.value for hand in hands]))


def mean_reward(hands: Sequence[HandResult], planned: int) -> float:
    """Return 5 times the mean return per planned hand. Unplayed hands count 0."""
    return 5.0 * sum([hand.value for hand in hands]) / planned


def five_times_total(hands: Sequence[HandResult], planned: int) -> float:
    """Return 5 times the sum of the returns, as the released code pays chips."""
    return 5.0 * sum([hand.value for hand in hands])


PAID_BY_RETURN: Mapping[str, EpisodeReward] = {"task": mean_reward, "released": mean_reward}
"""Task rewards for a game in which the size of the return matters, not only its sign."""


@dataclass(frozen=True, kw_only=True)
class GameSettings:
    """Default prompts, limits and rewards of a game. The values here suit any game."""

    opponent: Any = "uniform"
    """Default opponent: a name, or a mapping of names to weights (a pool)."""
    seat: str | None = None
    """Default rule for the learner's seat (`first`, `second`, `alternate`), for games whose seats have roles.

    If None, the protocol's rule holds in meta-episodes, and `alternate` in single episodes.
    """
    turn_limits: Mapping[str, int] = field(default_factory=dict)
    """Answers per hand in meta-episodes, if not the game's: `task` (protocol adaptive), `released` (paper)."""
    rewards: Mapping[str, EpisodeReward] = field(
        default_factory=lambda: {"task": outcome_reward, "released": outcome_reward}
    )
    """Named task rewards: `task` (protocol adaptive), `released` (protocol paper), others by name."""
    references: Mapping[str, str] = field(default_factory=dict)
    """Reference rows of evaluation tables: label to agent, as in `{"floor: random": "scripted:random"}`.

    They are played with `reveal_opponent=True`, so that a policy that reads `Turn.opponent` can be one of them.
    """
    invalid_penalty: float = 0.5
    length_penalty: float = 0.0
    """Coefficient c_len of the length penalty."""
    history_window: int = 7
    """Turns of the current episode shown in a play prompt."""
    full_turns: int = 2
    """Newest turns of that window that are shown with their observation. Older turns show the action only."""
    reflect_window: int = 7
    """Turns of an earlier episode shown in a reflect prompt or in the memory."""


def as_reward(reward: str | EpisodeReward, rewards: Mapping[str, EpisodeReward], game: str) -> EpisodeReward:
    """Return the function that pays an episode.

    Args:
        reward: A name in `rewards`, `module:function`, or the function itself.
        rewards: Named rewards of the game.
        game: Name of the game, for the error message.

    Raises:
        ValueError: If the name is unknown.
        ImportError: If the module or the function does not exist.
        TypeError: If `module:function` is not a function, or `reward` cannot be called.
        UntrustedName: If the name comes from a file and the user did not import the module.
    """
    if not isinstance(reward, str):
        if not callable(reward):
            raise TypeError(f"reward must be a name or a function, got {type(reward).__name__}.")
        return reward
    if reward in rewards:
        return rewards[reward]
    if ":" in reward:
        return load_function(reward)
    raise ValueError(
        f"reward={reward!r} is unknown in {game}; choose one of: {', '.join(rewards)}, or name your own function as "
        f"module:function."
    )


def reward_name(reward: str | EpisodeReward) -> str:
    """Return the name of a reward for files: the name itself, or `module:function` of a function.

    Raises:
        ValueError: If the function is not at the top level of a module, so that no file can name it.
    """
    if isinstance(reward, str):
        return reward
    module, name = getattr(reward, "__module__", None), getattr(reward, "__qualname__", "")
    if module is None or vars(sys.modules[module]).get(name) is not reward:
        raise ValueError(
            f"reward={reward!r} cannot be named in a file; define it at the top level of a module, so that workers and "
            f"saved models find it as module:function."
        )
    return import_path(reward)
