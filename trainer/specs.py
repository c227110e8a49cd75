"""Which meta-episodes a rollout plays: a function of (run seed, rollout index) and of nothing else."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from mage_envs.core import Task
from mage_envs.randomness import Stream, fold, seed_of
from trainer.rollout import RolloutSpec

TASKS, OPPONENTS, SHUFFLE = range(3)
"""Roles of the run's random streams."""


def stream(seed: int, role: int, *key: int) -> np.random.Generator:
    """The stream of one role at one place of the run."""
    return Stream(fold(seed, role, *key)).generator()


def rollout_specs(
    env_id: str,
    seed: int,
    rollout: int,
    groups: int,
    members: int,
    opponents: Mapping[str, float] | None = None,
    stationary: bool = True,
) -> list[RolloutSpec]:
    """One spec per meta-episode, group by group; members of a group share their task's seed.

    Opponents are drawn by weight: one per group, or one per member unless `stationary`. None: the environment draws
    its own by the task's seed, so that the group's members still meet the same one.
    """
    drawn: list[str | None] = [None] * (groups * members)
    if opponents is not None:
        rng = stream(seed, OPPONENTS, rollout)
        if stationary:
            drawn = [name for name in draw_evenly(opponents, groups, rng) for _ in range(members)]
        else:
            drawn = [*draw_evenly(opponents, groups * members, rng)]
    specs = []
    for group in range(groups):
        task_seed = seed_of(seed, TASKS, rollout, group)
        for member in range(members):
            task = Task(env_id, drawn[group * members + member], None, task_seed)
            specs.append(RolloutSpec(task, group, member))
    return specs


def draw_evenly(opponents: Mapping[str, float], count: int, rng: np.random.Generator) -> list[str]:
    """`count` names by weight, each within one of its share of `count` (systematic sampling), in random order."""
    names = list(opponents)
    shares = np.cumsum([opponents[name] for name in names])
    points = (rng.random() + np.arange(count)) / count * shares[-1]
    chosen = np.minimum(np.searchsorted(shares, points, side="right"), len(names) - 1)
    return [names[i] for i in rng.permutation(chosen)]


def redrawn(specs: Sequence[RolloutSpec], groups: Collection[int], seed: int, rollout: int) -> list[RolloutSpec]:
    """The members of some groups with another task, as groups of new numbers; their opponents stay."""
    count = 1 + max(spec.group for spec in specs)
    fresh = []
    for spec in specs:
        if spec.group in groups:
            group = spec.group + count
            task = replace(spec.task, seed=seed_of(seed, TASKS, rollout, group))
            fresh.append(RolloutSpec(task, group, spec.member))
    return fresh
