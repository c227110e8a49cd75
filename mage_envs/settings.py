"""Settings of prompts and of training for a game: windows, penalties, limits, rewards, who sits opposite by default.

They are no rules. Each game has one `GameSettings` beside it; `gym.make` takes another.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import Any

from mage_envs.core import HandResult
from mage_envs.imports import load_function

EpisodeReward = Callable[[Sequence[HandResult], int], float]
"""Maps the hands finished so far and the number of hands planned to the task reward R so far.

It must be 0 for no hands. The reward of one hand is the difference it makes.
"""


def outcome_reward(hands: Sequence[HandResult], planned: int) -> float:
    """+10 for a positive episode total, -10 for a negative one, 0 for 0, NaN for NaN (docs/method.md, section 2)."""
    total = sum(hand.value for hand in hands)
    if isnan(total):
        return total
    return 10.0 if total > 0 else -10.0 if total < 0 else 0.0


def success_reward(hands: Sequence[HandResult], planned: int) -> float:
    """+10 when every hand so far is a success by the game's own word (`State.won`), else -10."""
    if not hands:
        return 0.0
    return 10.0 if all(hand.success for hand in hands) else -10.0


def success_or_nothing(hands: Sequence[HandResult], planned: int) -> float:
    """10 when every hand so far is a success, else 0, as the released code pays for tasks."""
    return max(success_reward(hands, planned), 0.0)


def total_reward(hands: Sequence[HandResult], planned: int) -> float:
    """The sum of the hands' returns, in the game's own unit."""
    return float(sum([hand.value for hand in hands]))


def mean_reward(hands: Sequence[HandResult], planned: int) -> float:
    """5 x the mean return per hand, unplayed hands counting nothing."""
    return 5.0 * sum([hand.value for hand in hands]) / planned


def five_times_total(hands: Sequence[HandResult], planned: int) -> float:
    """5 x the sum of the returns, as the released code pays chips."""
    return 5.0 * sum([hand.value for hand in hands])


PAID_BY_RETURN: Mapping[str, EpisodeReward] = {"task": mean_reward, "released": mean_reward}
"""Task rewards of a game whose return says more than its sign."""


@dataclass(frozen=True, kw_only=True)
class GameSettings:
    """How a game is prompted, limited and paid where nothing else is said; the defaults serve any game."""

    opponent: Any = "uniform"
    """Name, or mapping of names to weights (a pool), seated where the user names none."""
    seat: str | None = None
    """Where the learner sits where nothing else is said (`first`, `second`, `alternate`), in games whose seats have
    roles; None: the protocol's rule, and alternating in single episodes."""
    turn_limits: Mapping[str, int] = field(default_factory=dict)
    """Answers per hand in meta-episodes, where not the game's: `task` (protocol adaptive), `released` (paper)."""
    rewards: Mapping[str, EpisodeReward] = field(
        default_factory=lambda: {"task": outcome_reward, "released": outcome_reward}
    )
    """Named task rewards: `task` (protocol adaptive), `released` (protocol paper), others by name."""
    invalid_penalty: float = 0.5
    length_penalty: float = 0.0
    """c_len of the length penalty."""
    history_window: int = 7
    """Turns of the current episode shown in a play prompt."""
    full_turns: int = 2
    """The newest turns of that window shown with their observation; older ones as action only."""
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
    return f"{module}:{name}"
