"""Settings of prompts and of training for a game: windows, penalties, limits, rewards, who sits opposite by default.

They are no rules. Each game has one `GameSettings` beside it; `gym.make` takes another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import Any

from mage_envs.core import HandResult

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
