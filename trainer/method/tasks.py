"""Specs of a rollout's meta-episodes: a function of (run seed, rollout index) and of nothing else."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from mage_envs.core import Task
from mage_envs.random.streams import Stream, fold, seed_of
from mage_envs.wrappers.rollout.loop import RolloutSpec

TASKS, OPPONENTS, SHUFFLE = range(3)
"""Roles of the run's random streams."""


def stream(seed: int, role: int, *key: int) -> np.random.Generator:
    """Return the random stream of one role at one place of the run."""
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
    """Return one spec per meta-episode, group by group. Members of a group share their task's seed.

    Args:
        opponents: Names and weights. None: the environment draws its opponent by the task's seed, so that the members
            of a group still meet the same one.
        stationary: True to draw one opponent per group, False to draw one per member.
    """
    opponent_names: list[str | None] = [None] * (groups * members)
    if opponents is not None:
        rng = stream(seed, OPPONENTS, rollout)
        if stationary:
            opponent_names = [name for name in draw_evenly(opponents, groups, rng) for _ in range(members)]
        else:
            opponent_names = [*draw_evenly(opponents, groups * members, rng)]
    specs = []
    for group in range(groups):
        task_seed = seed_of(seed, TASKS, rollout, group)
        for member in range(members):
            task = Task(env_id, opponent_names[group * members + member], None, task_seed)
            specs.append(RolloutSpec(task, group, member))
    return specs


def draw_evenly(opponents: Mapping[str, float], count: int, rng: np.random.Generator) -> list[str]:
    """Draw `count` names by weight, in random order. Each name's count is within one of its share."""
    names = list(opponents)
    shares = np.cumsum([opponents[name] for name in names])
    # Systematic sampling: `count` equidistant points with one random offset. Independent draws would vary more.
    points = (rng.random() + np.arange(count)) / count * shares[-1]
    # Rounding may put the last point at the end of the last share.
    indices = np.minimum(np.searchsorted(shares, points, side="right"), len(names) - 1)
    return [names[i] for i in rng.permutation(indices)]


def redraw_groups(specs: Sequence[RolloutSpec], groups: Collection[int], seed: int, rollout: int) -> list[RolloutSpec]:
    """Return the members of some groups with new tasks, as groups with new numbers. Their opponents stay.

    Args:
        groups: Numbers of the groups to redraw.
    """
    # New numbers keep a redrawn group apart from the group that it replaces, in seeds and in statistics.
    count = 1 + max(spec.group for spec in specs)
    fresh = []
    for spec in specs:
        if spec.group in groups:
            group = spec.group + count
            task = replace(spec.task, seed=seed_of(seed, TASKS, rollout, group))
            fresh.append(RolloutSpec(task, group, spec.member))
    return fresh
