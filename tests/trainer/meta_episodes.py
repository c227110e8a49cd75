"""Trajectories written by hand, for the tests of returns and advantages."""

from __future__ import annotations

from collections.abc import Sequence

from mage_envs.core import Task
from mage_envs.wrappers.rollout.trajectory import EpisodeResult, Step, Trajectory

WIN, LOSS, DRAW = 10.0, -10.0, 0.0


def trajectory(
    rewards: Sequence[float],
    turns: int | Sequence[int] = 3,
    *,
    reflections: bool = True,
    penalties: dict[tuple[int, str, int], float] | None = None,
    group: int = 0,
    member: int = 0,
    opponent: str = "x",
    failure: str | None = None,
) -> Trajectory:
    """One meta-episode with the observation `turn t` at turn t; `penalties` by (episode, phase, turn)."""
    counts = [turns] * len(rewards) if isinstance(turns, int) else list(turns)
    owed = penalties or {}
    steps = []
    for k, reward in enumerate(rewards):
        if k and reflections:
            steps.append(
                Step(
                    episode=k,
                    phase="reflect",
                    turn=0,
                    hand=0,
                    anchor="reflection",
                    penalty=owed.get((k, "reflect", 0), 0.0),
                )
            )
        for t in range(counts[k]):
            is_last = t == counts[k] - 1
            steps.append(
                Step(
                    episode=k,
                    phase="play",
                    turn=t,
                    hand=0,
                    anchor=f"turn {t}",
                    reward=reward if is_last else 0.0,
                    penalty=owed.get((k, "play", t), 0.0),
                    hand_end=is_last,
                )
            )
    episodes = tuple(
        EpisodeResult(reward=reward, value=reward, hands=1, success=reward > 0, timeout=False, seats=(0,))
        for reward in rewards
    )
    return Trajectory(
        task=Task("test"),
        opponent=opponent,
        group=group,
        member=member,
        steps=tuple(steps),
        episodes=episodes,
        num_episodes=len(rewards),
        failure=failure,
    )
