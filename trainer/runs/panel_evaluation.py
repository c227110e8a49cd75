"""Evaluations in training: their tasks, settings and scores, as the trainer sees them.

Panels, scores and their exact references belong to the benchmarks, a layer above. A string names their class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mage_envs.core import Task
from mage_envs.loading.imports import load_entry
from mage_envs.wrappers.rollout.trajectory import Trajectory

PANELS = "mage_envs.benchmarks.scale.in_training:PanelEvaluation"
"""Class of an evaluation, made from a panel's name and the options of the run's environment."""
SCORE = "score"
"""The metric that compares evaluations: the last episode's headline measure over all opponents."""


LINES = {"no_memory": "no memory", "best_learner": "best learner", "knows_opponent": "knows the opponent"}
"""Names of the exact lines in the metrics of an evaluation, with their names in texts, as in `Scale.lines`."""


class Scored(NamedTuple):
    """Result of an evaluation."""

    metrics: Mapping[str, float]
    """Scores by name, `SCORE` included."""
    table: str
    """Table as `mage eval` prints it."""


class PanelPlayed(ABC):
    """A panel with the settings of a run."""

    name: str
    env_id: str
    options: Mapping[str, Any]
    """Keyword arguments of the environment's id."""

    @property
    @abstractmethod
    def tasks(self) -> Sequence[Task]:
        """Return the tasks of the panel."""

    @abstractmethod
    def scored(self, trajectories: Sequence[Trajectory], step: int) -> Scored:
        """Return the scores of an evaluation after `step` optimiser steps."""


def panel_played(name: str, env_id: str, options: Mapping[str, Any]) -> PanelPlayed:
    """Return a panel for a run.

    Args:
        env_id: Id of the run's environment.
        options: Keyword arguments of the id.

    Raises:
        ValueError: If the panel is unknown or belongs to another environment.
    """
    # Imported by name at run time: an import at the top would point from the trainer to a layer above it.
    panel: PanelPlayed = load_entry(PANELS)(name, options)
    if panel.env_id != env_id:
        raise ValueError(
            f"eval_panel={name!r} is played in {panel.env_id}, not in {env_id}; mage list panels shows them."
        )
    return panel
