"""The trainer's side of a population of opponents: results in, snapshots of the learner, state kept in checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from opponents.populations import Result
from trainer.trajectory import Trajectory
from wrappers.results import EpisodeResult

if TYPE_CHECKING:
    from trainer.mage_trainer import MAGETrainer

LEAGUE = "league"
"""Folder of the snapshots in a run's output."""


def results_of(trajectories: Sequence[Trajectory]) -> list[Result]:
    """Per sound meta-episode: its opponent, and the mean over its episodes of 1 (success), 0.5 (draw) or 0."""

    def score(episode: EpisodeResult) -> float:
        return 1.0 if episode.success else 0.5 if episode.value == 0 and not episode.timeout else 0.0

    return [
        (t.opponent, sum(map(score, t.episodes)) / len(t.episodes))
        for t in trajectories
        if t.failure is None and t.episodes and t.opponent
    ]


def restore_population(trainer: MAGETrainer) -> None:
    """Takes the population back to where the last rollout of this run left it; a resumed run goes on from there."""
    state = trainer.progress.population
    if trainer.population is None or state is None:
        return
    try:
        trainer.population.restore(state)
    except KeyError as error:
        raise ValueError(
            f"The checkpoint's population lacks {error}: it is of another kind; resume with the settings it began with."
        ) from error


def update_population(trainer: MAGETrainer, trajectories: Sequence[Trajectory]) -> None:
    """Tells the population the results, and freezes the learner where it asks for that."""
    population = trainer.population
    if population is None:
        return
    population.record(results_of(trajectories))
    updates = trainer.state.global_step
    if updates and population.wants_snapshot(updates):
        folder = Path(trainer.args.output_dir or ".") / LEAGUE / f"step-{updates}"
        trainer.save_snapshot(str(folder))
        population.add(f"checkpoint:{folder}", updates)
    trainer.progress.population = population.state()
