"""Rewards, penalties and returns that are not finite, or too large to reckon with. No torch.

A meta-episode that pays or returns such a number is a typed failure: masked from the loss, in no mean, counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite

from trainer.trajectory import EpisodeResult, Failure, Step, Trajectory

REWARD, RETURN = "reward", "return"
"""Kinds of failures."""
LARGEST = 1e30
"""Greater returns overflow float32, or their squares float64."""


def bad_pay(steps: Sequence[Step], episodes: Sequence[EpisodeResult]) -> str | None:
    """What is paid, or taken as a penalty, that is not finite; None where all is."""
    for step in steps:
        if not isfinite(step.reward):
            return f"the reward of turn {step.turn} in episode {step.episode} is {step.reward}"
        if not isfinite(step.penalty):
            return f"the penalty of turn {step.turn} in episode {step.episode} is {step.penalty}"
    for number, episode in enumerate(episodes):
        if not isfinite(episode.reward):
            return f"the reward of episode {number} is {episode.reward}"
        if not isfinite(episode.value):
            return f"the value of episode {number} is {episode.value}"
    return None


def bad_returns(returns: Sequence[float]) -> str | None:
    """Which return cannot be reckoned with; None where all can."""
    for index, value in enumerate(returns):
        if not abs(value) <= LARGEST:
            return f"the return of step {index} is {value:g}"
    return None


def masked(trajectory: Trajectory, kind: str, reason: str) -> Trajectory:
    """The trajectory as a failure of that kind."""
    episode = trajectory.steps[-1].episode if trajectory.steps else 0
    failure = Failure(kind=kind, reason=reason, attempt=trajectory.retries, episode=episode)
    return replace(trajectory, failure=str(failure), failures=(*trajectory.failures, failure))
