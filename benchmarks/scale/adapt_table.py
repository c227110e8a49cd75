"""The result of `mage adapt`: the sentence of each agent, one table, and the negative controls."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from statistics import median
from typing import Any

from mage_envs.benchmarks.evaluation.suites.adapt import ALL_CELLS
from mage_envs.benchmarks.evaluation.suites.paper import named_suite
from mage_envs.benchmarks.evaluation.tables.summary_table import NOT_KNOWN, number, share
from mage_envs.benchmarks.scale.adapt_parts import CellParts, parts_blocks
from mage_envs.benchmarks.scale.adaptation import ScaledRun
from mage_envs.benchmarks.scale.scale import LEAST_LEVEL, ScaleScore, family_weights, mean_score, verdict
from mage_envs.benchmarks.scale.scale_text import (
    LEGEND,
    failures_text,
    scale_sentence,
    score_text,
    value_text,
)
from mage_envs.benchmarks.scale.stored_suites import NONE, OTHER, StoredSuite, main_condition
from mage_envs.benchmarks.suites.planning import short_names
from mage_envs.cli.tables import Block, TextTable
from mage_envs.text.visible import one_line

PAIRED = {
    NONE: "without memory",
    OTHER: "with the memory of another opponent",
    "neutral": "in neutral words",
    "same": "with the memory of the same opponent and other deals",
}
"""Controls of `mage adapt --controls`, with their words in the sentence."""
RULES_ALONE = ("counting", "nash")
"""References that know the rules and not the pool, as columns of the table."""
MEAN = "mean of families"


@cache
def reference_rows() -> Mapping[str, Any]:
    """Return the stored levels of the references, by reference and cell (`adapt_references.json`).

    `python -m dev.adapt_cells --references` computes them.
    """
    text = files("mage_envs.benchmarks.evaluation.suites").joinpath("adapt_references.json").read_text("utf-8")
    read: Mapping[str, Any] = json.loads(text)
    return read


def mean_over_families(
    scores: Mapping[str, ScaleScore | None], lower_bound: float = float("-inf")
) -> ScaleScore | None:
    """Return the mean over families of cells, or None if no cell has a score.

    Args:
        scores: ScaleScore of each cell by name.
        lower_bound: Least value of a cell in the mean.
    """
    known_scores = {name: score for name, score in scores.items() if score is not None}
    if not known_scores:
        return None
    weights = family_weights({name: ALL_CELLS[name].family for name in known_scores})
    return mean_score([(weights[name], score) for name, score in known_scores.items()], lower_bound)


@dataclass(frozen=True)
class AdaptResult:
    """Scores of an agent in the suite."""

    suite: str
    agent: str
    conditions: Mapping[str, Mapping[str, ScaledRun]]
    """Condition, such as `described`, `hidden` or a control, to its runs by cell."""
    parts: CellParts = field(default_factory=dict)
    """Parts of the regret by cell under the main condition; empty if the agent was not asked for its belief."""

    @classmethod
    def of(cls, stored: StoredSuite) -> AdaptResult:
        """Return the result of a stored suite."""
        return cls(stored.suite, stored.agent, stored.conditions)

    @property
    def planned(self) -> int:
        """Number of cells of the suite that have a scale."""
        return sum(not ALL_CELLS[name].control for name in short_names(named_suite(self.suite)).values())

    @property
    def main(self) -> str:
        """Condition of the headline: the pool described, if it was played."""
        return main_condition(self.conditions)

    def cell_levels(self, condition: str | None = None) -> dict[str, ScaleScore | None]:
        """Return the level in each cell under a condition (default: the main one)."""
        return {name: run.level() for name, run in self.conditions[condition or self.main].items()}

    def cell_differences(self, control: str) -> dict[str, ScaleScore | None]:
        """Return the main level less that under a control in each cell that both played; empty if none did."""
        main, others = self.conditions[self.main], self.conditions.get(control, {})
        return {
            name: run.difference(others[name], by_regrets=control == NONE)
            for name, run in main.items()
            if name in others
        }

    def level(self, condition: str | None = None) -> ScaleScore | None:
        """Return the mean level over families; a cell counts at least `LEAST_LEVEL`."""
        return mean_over_families(self.cell_levels(condition), LEAST_LEVEL)

    def difference(self, control: str) -> ScaleScore | None:
        """Return the mean over families of the main level less that under a control, None if it was not played."""
        return mean_over_families(self.cell_differences(control))

    @property
    def failed(self) -> int:
        """Number of planned meta-episodes that failed or were not played, under any condition."""
        return sum(run.failed for runs in self.conditions.values() for run in runs.values())

    def unusable(self) -> int:
        """Return the number of answers without a legal action under the main condition."""
        return sum(run.unusable for run in self.conditions[self.main].values())

    def sentence(self) -> str:
        """Return the result in one sentence."""
        level = self.level()
        text = scale_sentence(self.agent, level, self.difference(NONE), self.difference(OTHER))
        if level is None:
            return text
        for name in self.conditions:
            if name not in (self.main, NONE, OTHER) and (condition_level := self.level(name)) is not None:
                text += f"; {PAIRED.get(name, 'without a pool description')} {score_text(condition_level)}"
        scored = sum(score is not None for score in self.cell_levels().values())
        return text if scored == self.planned else f"{text} ({scored} of {self.planned} cells)"

    def row(self) -> list[str]:
        """Return the row of the agent in a table of agents: level, median, both adaptations, verdict."""
        levels = [score.mean for score in self.cell_levels().values() if score is not None and score.is_complete]
        own_score, other_score = self.difference(NONE), self.difference(OTHER)
        return [
            one_line(self.agent),
            score_text(self.level()),
            share(median(levels)) if levels else NOT_KNOWN,
            score_text(own_score),
            score_text(other_score),
            verdict(own_score, other_score) or "no verdict",
        ]

    def blocks(self) -> list[Block]:
        """Return the sentence, the table, the negative controls and the notes."""
        further_conditions = [name for name in self.conditions if name not in (self.main, NONE, OTHER)]
        rows, gains = self._rows(further_conditions)
        columns = ["cell", "level", *further_conditions, "own memory", "other's memory", "(best)"]
        columns += ["ep 1", "ep 2", "ep 3", "no mem. 3", "best 3", *RULES_ALONE]
        extra: list[Block] = ["", TextTable(["negative control", "gain 1-3"], gains)] if gains else []
        scored = [score.mean for score in self.cell_levels().values() if score is not None and score.is_complete]
        failed, unusable = failures_text(self.level()), self.unusable()
        return [
            self.sentence(),
            "",
            f"{self.suite}: {one_line(self.agent)}, 3 episodes against one opponent, pool {self.main}",
            "",
            TextTable(columns, rows),
            *extra,
            *parts_blocks(self.parts, self.conditions[self.main]),
            "",
            *([f"Median level of the cells: {share(median(scored))}."] if scored else []),
            *LEGEND,
            f"{MEAN}: each family of cells counts equally, and a cell at least {LEAST_LEVEL:g}. (best): adaptation of",
            "the best learner, which is 1 plus what it pays for learning. ep: luck-adjusted value per hand against the",
            "opponents that were met. no mem. 3, best 3: the lines in episode 3.",
            "counting, nash: levels of references that know the rules alone.",
            *([f"Answers that named no legal action or were cut: {unusable:,}."] if unusable else []),
            *([f"Failures count: a range is the worst and the best completion{failed}."] if failed else []),
        ]

    def _rows(self, further_conditions: Sequence[str]) -> tuple[list[list[str]], list[list[str]]]:
        """Return the rows of the cells with a mean, and those of the negative controls."""
        own_scores, other_scores, levels = self.cell_differences(NONE), self.cell_differences(OTHER), self.cell_levels()
        rows, gains = [], []
        for name, run in self.conditions[self.main].items():
            if run.scale is None:
                gains.append([name, value_text(run.gain())])
                continue
            values = [run.episode_value(k) for k in range(len(run.scale.no_memory))]
            further_runs = [self.conditions[condition].get(name) for condition in further_conditions]
            rows.append(
                [
                    name,
                    score_text(levels[name]),
                    *(
                        score_text(None if condition_run is None else condition_run.level())
                        for condition_run in further_runs
                    ),
                    score_text(own_scores.get(name)),
                    score_text(other_scores.get(name)),
                    share(run.scale.best_adaptation),
                    *(NOT_KNOWN if value is None else number(value.mean) for value in values),
                    number(run.scale.no_memory[-1]),
                    number(run.scale.best_learner[-1]),
                    *(share(reference_level(reference, name)) for reference in RULES_ALONE),
                ]
            )
        if rows:
            means = [reference_level(reference, "mean") if self.suite == "adapt" else None for reference in RULES_ALONE]
            rows.append(
                [
                    MEAN,
                    score_text(self.level()),
                    *(score_text(self.level(condition)) for condition in further_conditions),
                    score_text(self.difference(NONE)),
                    score_text(self.difference(OTHER)),
                    *[""] * 6,
                    *map(share, means),
                ]
            )
        return rows, gains

    def to_json(self) -> dict[str, Any]:
        """Return all values as JSON values."""
        own_score, other_score = self.difference(NONE), self.difference(OTHER)
        return {
            "suite": self.suite,
            "agent": self.agent,
            "sentence": self.sentence(),
            "verdict": verdict(own_score, other_score),
            "main": self.main,
            "level": score_json(self.level()),
            "adaptation": {"own": score_json(own_score), "other": score_json(other_score)},
            "conditions": {name: self._condition_json(name) for name in self.conditions},
            "parts": {name: None if parts is None else asdict(parts) for name, parts in self.parts.items()},
        }

    def _condition_json(self, condition: str) -> dict[str, Any]:
        """Return the values of one condition as JSON values."""
        differences: dict[str, ScaleScore | None] = {} if condition == self.main else self.cell_differences(condition)
        cells = []
        for name, run in self.conditions[condition].items():
            values = [run.episode_value(k) for k in range(3)]
            cells.append(
                {
                    "cell": name,
                    "family": ALL_CELLS[name].family,
                    "unit": run.unit,
                    "level": score_json(run.level()),
                    "less": score_json(differences.get(name)),
                    "episodes": [None if value is None else [value.mean, value.low, value.high] for value in values],
                    "lines": None if run.scale is None else run.scale.to_json(),
                    "gain": None if run.scale is not None else _mean(run.gain),
                    "failed": run.failed,
                    "planned": len(run.tasks),
                }
            )
        return {"level": score_json(self.level(condition)), "cells": cells}


def _mean(estimate_of: Callable[[], Any]) -> list[float | None] | None:
    """Return an estimate as mean, low and high."""
    estimate = estimate_of()
    return None if estimate is None else [estimate.mean, estimate.low, estimate.high]


def score_json(score: ScaleScore | None) -> dict[str, Any] | None:
    """Return a score as JSON values, or None."""
    return None if score is None else score.to_json()


def reference_level(reference: str, cell: str) -> float | None:
    """Return a stored level of a reference, or None if it does not play the cell."""
    row = reference_rows().get(reference, {}).get(cell)
    return None if row is None else float(row["mean"])


def rank_results(results: Sequence[AdaptResult]) -> list[AdaptResult]:
    """Return the results, the highest level first. One with failures has its worst level, one without a level none."""

    def level_of(result: AdaptResult) -> float:
        level = result.level()
        return float("-inf") if level is None or level.unmet else level.worst

    return sorted(results, key=level_of, reverse=True)


def agents_table(results: Sequence[AdaptResult]) -> TextTable:
    """Return the table of several agents in one suite, the highest level first, with the exact lines below."""
    rows = [result.row() for result in rank_results(results)]
    best = [
        (name, run.scale.best_adaptation)
        for name, run in results[0].conditions[results[0].main].items()
        if run.scale is not None
    ]
    weights = family_weights({name: ALL_CELLS[name].family for name, _ in best})
    paid = sum(weights[name] * value for name, value in best)
    rows += [["best learner", "1.00", "1.00", share(paid), "", ""], ["no memory", ".00", ".00", ".00", ".00", ""]]
    return TextTable(["agent", "level", "median", "own memory", "other's memory", "verdict"], rows)
