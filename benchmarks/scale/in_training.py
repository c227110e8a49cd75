"""A panel for evaluation during training, with the same tasks, scores and exact references as `mage eval`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from mage_envs.benchmarks.evaluation.run.summary import summary_of
from mage_envs.benchmarks.evaluation.scoring.scores import ScoreRow, Summary, score_of
from mage_envs.benchmarks.evaluation.suites.panels import full_name, named_panel
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.evaluation.tables import summary_table
from mage_envs.benchmarks.records.lines import encode_line
from mage_envs.benchmarks.scale.adaptation import CellValues, values_of_lines
from mage_envs.benchmarks.scale.judged_play import scale_of_setting, scale_run
from mage_envs.benchmarks.scale.scale import Scale, ScaleScore
from mage_envs.benchmarks.scale.scale_text import scale_sentence
from mage_envs.core import Task
from mage_envs.trainer.runs.panel_evaluation import LINES, SCORE, PanelPlayed, Scored
from mage_envs.wrappers.rollout.trajectory import Trajectory


class PanelEvaluation(PanelPlayed):
    """A named panel with the options of a training run."""

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        """Create the setting. Options that the panel fixes (a split, a number of boxes) override those of the run.

        Raises:
            ValueError: If the panel is unknown.
        """
        panel = named_panel(name)
        free_options = {key: value for key, value in options.items() if key not in panel.env_kwargs}
        self.name = full_name(name)
        self.env_id = panel.env_id
        self._setting = Setting(panel, self.name, free_options)
        self.options = self._setting.options

    @property
    def tasks(self) -> Sequence[Task]:
        """Return the tasks of the panel."""
        return self._setting.tasks

    def scored(self, trajectories: Sequence[Trajectory], step: int) -> Scored:
        """Return the scores after that optimiser step.

        The metrics are `score`, `level` if decisions can be judged and nothing failed, and `success/episode_k`,
        `value/episode_k`, `ceiling/episode_k` and `pass_at_k`, with k from 1. Those of a single opponent have its name
        behind a further slash. Where decisions can be judged, the exact lines are `no_memory/episode_k`,
        `best_learner/episode_k` and `knows_opponent/episode_k`. The sentence on the level is above the table.
        """
        name = f"after update {step}"
        summary = summary_of(name, self._setting, trajectories)
        metrics, sentence = {SCORE: score_of(summary)}, ""
        if self._scale is not None and (level := self._level(self._scale, trajectories)) is not None:
            sentence = f"{scale_sentence(name, level, None, None)}.\n"
            if level.is_complete:
                metrics["level"] = level.mean
        if self._scale is not None:
            lines = self._scale.lines()
            for line, title in LINES.items():
                metrics |= {f"{line}/episode_{k}": value for k, value in enumerate(lines[title], start=1)}
        for row, name in [(summary.overall, ""), *((row, f"/{row.opponent}") for row in summary.rows)]:
            metrics |= {f"{key}{name}": value for key, value in _row(row, summary).items()}
        return Scored(metrics, sentence + summary_table.table(summary))

    @cached_property
    def _scale(self) -> Scale | None:
        """Scale of the panel, as in `mage eval`."""
        return scale_of_setting(self._setting)

    @cached_property
    def _values(self) -> CellValues:
        """Decision values, which serve all evaluations of a run."""
        return CellValues(self.env_id, self._setting.options, self._setting.panel.weights())

    def _level(self, scale: Scale, trajectories: Sequence[Trajectory]) -> ScaleScore | None:
        """Return the level of an evaluation."""
        # A judge reads the results of hands, which only the prompts have, so the replies are executed again.
        lines = {index: encode_line(index, trajectory).line() for index, trajectory in enumerate(trajectories)}
        values = values_of_lines(self._values, self._setting, lines, self.name)
        return scale_run(self._setting, scale, values).level()


def _row(row: ScoreRow, summary: Summary) -> dict[str, float]:
    """Return the metrics of one row."""
    metrics: dict[str, float] = {}
    for number, episode in enumerate(row.episodes, start=1):
        metrics[f"success/episode_{number}"] = episode.success.estimate.mean
        metrics[f"value/episode_{number}"] = episode.returns.estimate.mean
        ceiling = episode.measure(summary.objective).ceiling
        if ceiling is not None:
            metrics[f"ceiling/episode_{number}"] = ceiling
    return metrics | {f"pass_at_{k}": rate.mean for k, rate in enumerate(row.pass_at, start=1)}
