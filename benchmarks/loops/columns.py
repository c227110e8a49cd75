"""Exact columns of recorded meta-episodes, for frameworks that show a number per sample."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.records.control_runs import CONTROLS
from mage_envs.benchmarks.records.lines import encode_line
from mage_envs.benchmarks.records.record_store import SUITE
from mage_envs.benchmarks.scale.adapt_table import AdaptResult
from mage_envs.benchmarks.scale.adaptation import CellValues, PlayedValue, later_level, level_of, values_of_lines
from mage_envs.benchmarks.scale.judged_play import judge_folder, scale_of_setting
from mage_envs.benchmarks.scale.stored_suites import read_stored_suite
from mage_envs.wrappers.rollout.trajectory import Trajectory

COLUMNS = ("level", "regret", "best")
"""Level of a meta-episode; its regret and the best possible value, both per hand in the game's unit."""
ADAPTATION = {"none": "own_memory", "other": "other_memory"}
"""Columns of a run under a control: the level with the own memory less that under the control, in episodes 2 to K."""


class RunJudge:
    """The columns of the meta-episodes of one setting. They are empty if decisions cannot be judged exactly."""

    def __init__(self, setting: Setting, folder: Path, main: RunJudge | None = None, control: str = "") -> None:
        """Prepare the columns. Nothing is computed before the first meta-episode.

        Args:
            setting: Setting of the run.
            folder: Folder of the run, for messages.
            main: Judge of the main run, for the run of a control.
            control: Control of the run, or an empty text.
        """
        self._setting, self._folder, self._main, self._control = setting, folder, main, control
        self._values: dict[int, PlayedValue] = {}
        """Values of the meta-episodes so far by their index."""

    @cached_property
    def _scale(self) -> Any:
        return scale_of_setting(self._setting) if self._main is None else self._main._scale

    @cached_property
    def _decisions(self) -> CellValues:
        """Decision values, which serve all meta-episodes and do not depend on the memory."""
        if self._main is not None:
            return self._main._decisions
        return CellValues(self._setting.panel.env_id, self._setting.options, self._setting.panel.weights())

    def columns(self, index: int, trajectory: Trajectory) -> dict[str, float]:
        """Return the columns of a meta-episode that ended.

        Args:
            index: Index of its row.
            trajectory: The meta-episode.
        """
        if trajectory.failure is not None or self._scale is None:
            return {}
        line = encode_line(index, trajectory).line()
        [value] = values_of_lines(self._decisions, self._setting, {index: line}, str(self._folder)).values()
        self._values[index] = value
        hands = self._scale.hands * trajectory.num_episodes
        columns = dict(
            zip(
                COLUMNS,
                (
                    level_of(self._scale, value),
                    sum(value.regrets) / hands,
                    (value.total + sum(value.regrets)) / hands,
                ),
                strict=True,
            )
        )
        own = None if self._main is None else self._main._values.get(index)
        if own is not None and self._control in ADAPTATION:
            by_regrets = self._control == CONTROLS[0]
            difference = later_level(self._scale, own, by_regrets) - later_level(self._scale, value, by_regrets)
            columns[ADAPTATION[self._control]] = difference
        return columns


def results_of(folder: Path) -> Mapping[str, float]:
    """Return level and adaptation of a recorded run or suite, as `mage adapt` computes them; empty if it is unfinished.

    Raises:
        ValueError: If the record cannot be read.
    """
    result: Any
    if (folder / SUITE).exists():
        result = AdaptResult.of(read_stored_suite(folder))
        level = result.level()
    else:
        result = judge_folder(folder)
        level = None if result is None else result.level
    if level is None:
        return {}
    scores = {"level": level, **{name: result.difference(control) for control, name in ADAPTATION.items()}}
    return {name: score.mean for name, score in scores.items() if score is not None and score.is_complete}
