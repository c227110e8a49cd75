"""`mage compare` of two suites of `mage adapt`: paired differences of the luck-adjusted level, by family and in all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import erfc, sqrt
from pathlib import Path
from typing import Any

from mage_envs.benchmarks.evaluation.scoring.estimates import Z
from mage_envs.benchmarks.evaluation.scoring.paired import rank_intervals
from mage_envs.benchmarks.evaluation.suites.adapt import ALL_CELLS
from mage_envs.benchmarks.evaluation.tables.summary_table import NOT_KNOWN
from mage_envs.benchmarks.records.record_store import read_suite
from mage_envs.benchmarks.scale.adaptation import ScaledRun
from mage_envs.benchmarks.scale.scale import ROUNDING, ScaleScore, family_weights, mean_score
from mage_envs.benchmarks.scale.scale_text import score_text
from mage_envs.benchmarks.scale.stored_suites import StoredSuite, main_condition, read_stored_suite
from mage_envs.cli.tables import Block, TextTable
from mage_envs.text.visible import one_line


def is_adapt_suite(folder: Path) -> bool:
    """Return True if the folder holds a suite of `mage adapt`."""
    return str((read_suite(folder) or {}).get("suite", "")).startswith("adapt")


@dataclass(frozen=True, kw_only=True)
class SuiteComparison:
    """Differences of the levels of two agents in one suite, on the same tasks."""

    suite: str
    first: str
    second: str
    families: Mapping[str, ScaleScore]
    """Level of the first agent less that of the second in each family of cells."""
    total: ScaleScore
    """The same as mean over the families."""

    def blocks(self) -> list[Block]:
        """Return the table of the differences."""
        rows = [[name, score_text(score), p_text(score)] for name, score in self.families.items()]
        rows.append(["mean of families", score_text(self.total), p_text(self.total)])
        return [
            f"{self.suite}: level of {one_line(self.first)} less that of {one_line(self.second)}, on the same tasks",
            "",
            TextTable(["family", "difference", "p"], rows),
            "",
            "Luck-adjusted and paired by meta-episode; ±: half a 95% interval; p: of no difference, by a normal test.",
        ]

    def to_json(self) -> dict[str, Any]:
        """Return all values as JSON values."""
        families = {name: score.to_json() for name, score in self.families.items()}
        return {"suite": self.suite, "first": self.first, "second": self.second, "families": families} | {
            "total": self.total.to_json(),
            "p": p_value(self.total),
        }


def p_value(score: ScaleScore) -> float | None:
    """Return the p-value of a mean of 0 by its interval, or None without one or without variance."""
    if not score.is_complete or not score.half:
        return None
    return erfc(abs(score.mean) / (score.half / Z) / sqrt(2))


def p_text(score: ScaleScore) -> str:
    """Return the p-value as text."""
    p = p_value(score)
    if p is None:
        return NOT_KNOWN
    return "< .0001" if p < 0.0001 else f"{p:.4f}"


def compare_suites(first_folder: Path, second_folder: Path) -> SuiteComparison:
    """Return the differences of two stored suites in the cells that both played.

    Raises:
        ValueError: If a suite is not valid, or if they are different suites or have no common cell.
    """
    first_suite, second_suite = read_stored_suite(first_folder), read_stored_suite(second_folder)
    if first_suite.suite != second_suite.suite:
        suites = f"{first_folder} holds {first_suite.suite} and {second_folder} {second_suite.suite}"
        raise ValueError(f"{suites}. Compare runs of one suite.")
    compared = compare_levels(first_suite, second_suite)
    if compared is None:
        raise ValueError(f"{first_folder} and {second_folder} have no cell in common.")
    return compared


def compare_levels(first_suite: StoredSuite, second_suite: StoredSuite) -> SuiteComparison | None:
    """Return the differences of two runs of one suite, or None if no cell was played by both."""
    cells = {name: score for name, score in _differences(first_suite, second_suite).items() if score is not None}
    if not cells:
        return None
    families = {name: ALL_CELLS[name].family for name in cells}
    weights = family_weights(families)
    by_family = {}
    for family in dict.fromkeys(families.values()):
        members = [name for name in cells if families[name] == family]
        by_family[family] = mean_score([(1 / len(members), cells[name]) for name in members])
    total = mean_score([(weights[name], score) for name, score in cells.items()])
    return SuiteComparison(
        suite=first_suite.suite, first=first_suite.agent, second=second_suite.agent, families=by_family, total=total
    )


def rank_suites(suites: Sequence[StoredSuite]) -> list[tuple[int, int]]:
    """Return the best and the worst rank of each run of one suite, by the mean over families.

    Runs with a failed meta-episode have no test, so that they rank anywhere.
    """
    comparisons = {(i, j): compare_levels(suites[i], suites[j]) for i, j in combinations(range(len(suites)), 2)}
    return _ranks(
        len(suites), {pair: None if compared is None else compared.total for pair, compared in comparisons.items()}
    )


def rank_by_level(runs: Sequence[ScaledRun]) -> list[tuple[int, int]]:
    """Return the best and the worst rank of each run of one setting by its level, as `rank_suites`."""
    pairs = combinations(range(len(runs)), 2)
    return _ranks(len(runs), {(i, j): runs[i].level_difference(runs[j]) for i, j in pairs})


def _ranks(count: int, differences: Mapping[tuple[int, int], ScaleScore | None]) -> list[tuple[int, int]]:
    """Return the intervals of ranks from the differences of pairs. None is a pair without a common task."""
    tests = {
        pair: (difference.mean, p)
        for pair, difference in differences.items()
        if difference is not None and (p := p_of_difference(difference)) is not None
    }
    return rank_intervals(count, tests)


def p_of_difference(total: ScaleScore) -> float | None:
    """Return `p_value`, but 0 for a difference without any variance."""
    if total.is_complete and total.half == 0 and abs(total.mean) > ROUNDING:
        return 0.0
    return p_value(total)


def _differences(first_suite: StoredSuite, second_suite: StoredSuite) -> dict[str, ScaleScore | None]:
    """Return the difference of the levels in each cell of both main conditions."""
    ours, theirs = (suite.conditions[main_condition(suite.conditions)] for suite in (first_suite, second_suite))
    return {name: run.level_difference(theirs[name]) for name, run in ours.items() if name in theirs}
