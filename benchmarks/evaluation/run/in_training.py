"""A panel for evaluation during training, with the same tasks, scores and exact references as `mage eval`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.evaluation.run.summary import summary_of
from benchmarks.evaluation.scoring.scores import ScoreRow, Summary
from benchmarks.evaluation.suites.panels import full_name, named_panel
from benchmarks.evaluation.suites.setting import Setting
from benchmarks.evaluation.tables import summary_table
from mage_envs.core import Task
from trainer.method.trajectory import Trajectory
from trainer.runs.panel_evaluation import SCORE, Scored


class PanelEvaluation:
    """A named panel with the options of a training run."""

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        """Create the setting. Options that the panel fixes (a split, a number of boxes) override those of the run.

        Raises:
            ValueError: If the panel is unknown.
        """
        panel = named_panel(name)
        kept = {key: value for key, value in options.items() if key not in panel.env_kwargs}
        self.name = full_name(name)
        self.env_id = panel.env_id
        self._setting = Setting(panel, self.name, kept)
        self.options: Mapping[str, Any] = self._setting.options

    @property
    def tasks(self) -> Sequence[Task]:
        """Return the tasks of the panel."""
        return self._setting.tasks

    def scored(self, trajectories: Sequence[Trajectory], step: int) -> Scored:
        """Return the scores after that optimiser step.

        The metrics are `score`, and `success/episode_k`, `value/episode_k`, `ceiling/episode_k` and `pass_at_k`, with k
        from 1. Those of a single opponent have its name behind a further slash.
        """
        summary = summary_of(f"after update {step}", self._setting, trajectories)
        metrics = {SCORE: score_of(summary)}
        for row, name in [(summary.overall, ""), *((row, f"/{row.opponent}") for row in summary.rows)]:
            metrics |= {f"{key}{name}": value for key, value in _row(row, summary).items()}
        return Scored(metrics, summary_table.table(summary))


def score_of(summary: Summary) -> float:
    """Return the headline measure of the last episode, or Pass@k if meta-episodes stop at a success."""
    overall = summary.overall
    if summary.early_stop:
        return overall.pass_at[-1].mean
    return overall.episodes[-1].measure(summary.objective).estimate.mean


def _row(row: ScoreRow, summary: Summary) -> dict[str, float]:
    """Return the metrics of one row."""
    found: dict[str, float] = {}
    for number, episode in enumerate(row.episodes, start=1):
        found[f"success/episode_{number}"] = episode.success.estimate.mean
        found[f"value/episode_{number}"] = episode.returns.estimate.mean
        ceiling = episode.measure(summary.objective).ceiling
        if ceiling is not None:
            found[f"ceiling/episode_{number}"] = ceiling
    return found | {f"pass_at_{k}": one.mean for k, one in enumerate(row.pass_at, start=1)}
