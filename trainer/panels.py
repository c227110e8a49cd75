"""Evaluations in training, as the trainer sees them: tasks, how they are played, and what their scores are.

Panels, scores and their exact references belong to the benchmarks, a layer above: their class is named by a string.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, Protocol

from mage_envs.core import Task
from trainer.trajectory import Trajectory

PANELS = "benchmarks.evaluation.in_training:PanelEvaluation"
"""Made from a panel's name and the options of the run's environment."""
SCORE = "score"
"""The metric by which evaluations are compared: the last episode's headline measure over all opponents."""


class Scored(NamedTuple):
    """What an evaluation gave."""

    metrics: Mapping[str, float]
    """With `SCORE` among them."""
    table: str
    """As `mage-bench eval` prints it."""


class PanelPlayed(Protocol):
    """A panel at the settings of a run."""

    name: str
    env_id: str
    tasks: Sequence[Task]
    options: Mapping[str, Any]
    """Keyword arguments of the id."""

    def scored(self, trajectories: Sequence[Trajectory], step: int) -> Scored:
        """The scores after that optimiser step."""
        ...


def panel_played(name: str, env_id: str, options: Mapping[str, Any]) -> PanelPlayed:
    """The panel of that name. Raises ValueError for an unknown one, and one of another environment."""
    module, _, attribute = PANELS.partition(":")
    made: PanelPlayed = vars(import_module(module))[attribute](name, options)
    if made.env_id != env_id:
        raise ValueError(
            f"eval_panel={name!r} is played in {made.env_id}, not in {env_id}; mage-bench list names others."
        )
    return made
