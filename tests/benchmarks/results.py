"""Meta-episodes written by hand, for the tests of scores and reports."""

from __future__ import annotations

from collections.abc import Sequence

from mage_envs.core import Task
from mage_envs.wrappers.rollout.trajectory import EpisodeResult, Step, Trajectory


def make_trajectory(
    values: Sequence[float],
    *,
    opponent: str = "kuhn/conservative",
    seed: int = 0,
    seats: Sequence[tuple[int, ...]] | None = None,
    planned: int | None = None,
    timeouts: Sequence[int] = (),
    failure: str | None = None,
    invalid: int = 0,
) -> Trajectory:
    """One meta-episode with the given total per episode; two answers an episode, the first `invalid` of them bad."""
    seats = seats or [(k % 2,) for k in range(len(values))]
    episodes = tuple(
        EpisodeResult(
            reward=5 * value,
            value=value,
            hands=len(seats[k]),
            success=value > 0 and k not in timeouts,
            timeout=k in timeouts,
            seats=tuple(seats[k]),
        )
        for k, value in enumerate(values)
    )
    steps = tuple(
        Step(
            episode=i // 2,
            phase="play",
            turn=i % 2,
            hand=0,
            anchor="x",
            invalid_reason="invalid" if i < invalid else None,
        )
        for i in range(2 * len(values))
    )
    task = Task("mage/KuhnPoker-Meta-v0", opponent, 0, seed)
    return Trajectory(
        task=task,
        opponent=opponent,
        group=0,
        member=0,
        steps=steps,
        episodes=episodes,
        num_episodes=planned or len(values),
        failure=failure,
    )
