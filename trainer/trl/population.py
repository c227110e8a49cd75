"""The trainer's side of a population of opponents: results, snapshots of the learner, and state in checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mage_envs.opponents.populations import Population, Result
from mage_envs.wrappers.rollout.trajectory import EpisodeResult, Trajectory

LEAGUE = "league"
"""Folder of the snapshots in a run's output."""


def results_of(trajectories: Sequence[Trajectory]) -> list[Result]:
    """Return the opponent and the score of each meta-episode that did not fail.

    The score is the mean over its episodes of 1 (success), 0.5 (draw) or 0.
    """

    def score(episode: EpisodeResult) -> float:
        if episode.success:
            return 1.0
        return 0.5 if episode.is_draw else 0.0

    return [
        (t.opponent, sum(map(score, t.episodes)) / len(t.episodes))
        for t in trajectories
        if t.failure is None and t.episodes and t.opponent
    ]


def restore_population(population: Population | None, state: Mapping[str, Any] | None) -> None:
    """Restore the population's state after the last rollout of this run, if there is one."""
    if population is None or state is None:
        return
    try:
        population.restore(state)
    except KeyError as error:
        raise ValueError(
            f"The checkpoint's population is of another kind (no {error}). Resume with the settings that the run began "
            f"with."
        ) from error


def update_population(
    population: Population | None,
    trajectories: Sequence[Trajectory],
    updates: int,
    folder: Path,
    user_folder: Path,
    save_snapshot: Callable[[str], None],
) -> dict[str, Any] | None:
    """Record the results in a population, and add a snapshot of the learner if it asks for one.

    Args:
        updates: Optimiser steps so far.
        folder: Absolute path of the snapshots, which stays right if other code changes the current folder.
        user_folder: The same folder as the user gave it. Opponents are named by it, so that the run can be moved.
        save_snapshot: Writes the model into a folder.

    Returns:
        The population's state for a checkpoint, or None without a population.
    """
    if population is None:
        return None
    population.record(results_of(trajectories))
    if updates and population.wants_snapshot(updates):
        # The snapshot first: if it cannot be written, the population does not name it.
        save_snapshot(str(folder / f"step-{updates}"))
        population.add(f"checkpoint:{user_folder / f'step-{updates}'}", updates)
    return population.state()
