"""Checks for rewards, penalties and returns that are not finite, or too large to compute with. No torch here.

A meta-episode with such a number is a typed failure: it is masked from the loss, excluded from means, and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite

from trainer.method.trajectory import EpisodeResult, Failure, Step, Trajectory

REWARD, RETURN = "reward", "return"
"""Kinds of failures."""
LARGEST = 1e30
"""Maximum absolute value of a return. Much larger values overflow float32 (3.4e38), or float64 when squared."""


def bad_pay(steps: Sequence[Step], episodes: Sequence[EpisodeResult]) -> str | None:
    """Return a description of the first reward, penalty or value that is not finite; None if all are finite."""
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
    """Return a description of the first return that is not finite or above `LARGEST`; None if all are valid."""
    # `not <=` also catches NaN, for which every comparison is False.
    for index, value in enumerate(returns):
        if not abs(value) <= LARGEST:
            return f"the return of step {index} is {value:g}"
    return None


def masked(trajectory: Trajectory, kind: str, reason: str) -> Trajectory:
    """Mark a trajectory as a failure.

    Args:
        trajectory: Trajectory to mark.
        kind: Kind of the failure, `REWARD` or `RETURN`.
        reason: Reason in one line.

    Returns:
        A copy with `failure` set, and the failure added to `failures`.
    """
    episode = trajectory.steps[-1].episode if trajectory.steps else 0
    failure = Failure(kind=kind, reason=reason, attempt=trajectory.retries, episode=episode)
    return replace(trajectory, failure=str(failure), failures=(*trajectory.failures, failure))
