"""Comparison of runs paired by task. Only agents and their memory, context and style may differ."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from mage_envs.benchmarks.evaluation.scoring.call_stats import MAX_FAILED_SHARE, as_losses
from mage_envs.benchmarks.evaluation.scoring.paired import (
    POWER,
    PairedDifference,
    Pairs,
    adjust_jointly,
    rank_intervals,
)
from mage_envs.benchmarks.evaluation.scoring.scores import cluster_of, label, per_hand
from mage_envs.benchmarks.evaluation.suites.environments import game_of
from mage_envs.benchmarks.evaluation.suites.setting import DISPLAY, Setting
from mage_envs.benchmarks.evaluation.tables.summary_table import NOT_KNOWN, format_delimited, select_episodes
from mage_envs.benchmarks.records.about import identity_fields, setting_of
from mage_envs.benchmarks.records.identity import differences
from mage_envs.benchmarks.records.record_store import Records, reading
from mage_envs.cli.tables import Block, TextTable
from mage_envs.core import Game
from mage_envs.registry import headline
from mage_envs.text.visible import one_line
from mage_envs.wrappers.rollout.trajectory import EpisodeResult, Trajectory


@dataclass(frozen=True)
class RunComparison:
    """Differences between the first run and another one."""

    first: str
    """Agent and memory."""
    second: str
    panel: str
    unit: str
    """Unit of the episode rows: the game's unit per hand, or `success rate`."""
    pairs: int
    """Number of tasks that both runs played to the end."""
    clusters: int
    failed: int
    """Number of tasks that are left out because one of the two runs failed."""
    rows: tuple[PairedDifference, ...]
    """Episodes, gain and Pass@k; only Pass@k if meta-episodes stop at their first success."""
    with_losses: tuple[PairedDifference, ...]
    """Same rows with failures counted as losses; empty unless failures exceed 1%."""


@dataclass(frozen=True)
class _StoredRun:
    """A run with its meta-episodes by the index of their task in the panel."""

    folder: Path
    about: dict[str, Any]
    setting: Setting
    game: Game
    trajectories: dict[int, Trajectory]

    @property
    def title(self) -> str:
        """Return agent and memory."""
        return one_line(f"{self.about['agent']['name']}+{self.about['setting']['options']['memory']}")


def compare(folders: Sequence[Path], wide: bool = False) -> list[RunComparison]:
    """Return the differences between the first run and each other one.

    At most five episodes are compared, unless `wide` selects all of them.

    Holm's correction covers all tests of all comparisons.

    Raises:
        NoRun: If a folder holds no run.
        ValueError: If the runs have different tasks or no common one, or if a run is damaged.
    """
    with reading(folders[0]):
        first_run, *others = [_read(folder) for folder in folders]
        for other_run in others:
            _check(first_run, other_run)
        comparisons = [_compare(first_run, other_run, wide) for other_run in others]
    tables = iter(
        adjust_jointly([rows for comparison in comparisons for rows in (comparison.rows, comparison.with_losses)])
    )
    return [
        replace(comparison, rows=tuple(next(tables)), with_losses=tuple(next(tables))) for comparison in comparisons
    ]


def rank_runs(folders: Sequence[Path]) -> list[tuple[int, int]]:
    """Return the best and the worst rank of each run that the paired tests cannot rule out, for runs of one setting.

    The measure is the last episode, or the last Pass@k if meta-episodes stop early.
    """
    runs = [_read(folder) for folder in folders]
    pairs = [(i, j) for i, j in combinations(range(len(runs)), 2) if _whole(runs[i], runs[j])]
    tests = [_last(_compare(runs[i], runs[j], wide=False)) for i, j in pairs]
    results = {pair: (test.mean, test.p) for pair, test in zip(pairs, tests, strict=True)}
    return rank_intervals(len(runs), results)


def _last(comparison: RunComparison) -> PairedDifference:
    """Return the row of the last episode, or of the last Pass@k if episodes are not compared."""
    episodes = [row for row in comparison.rows if row.measure.startswith("episode ")]
    return (episodes or comparison.rows)[-1]


def _read(folder: Path) -> _StoredRun:
    """Return the run of a folder. Raise ValueError if it is damaged or has no finished meta-episode."""
    with reading(folder):
        return _load_run(Records(folder))


def _load_run(records: Records) -> _StoredRun:
    """Return a run from its records. Raise ValueError if it is damaged or has no finished meta-episode."""
    folder = records.folder
    if records.problems:
        raise ValueError(f"{folder} is damaged: {records.problems[0]}. mage eval … --resume repairs it.")
    setting = setting_of(records.about)
    trajectories = dict(zip(sorted(records.lines), records.trajectories(), strict=True))
    if not any(t.failure is None for t in trajectories.values()):
        raise ValueError(f"{folder} holds no finished meta-episode. Continue the run with --resume.")
    return _StoredRun(
        folder=folder,
        about=records.about,
        setting=setting,
        game=game_of(setting.panel.env_id, setting.options),
        trajectories=trajectories,
    )


def _check(first_run: _StoredRun, second_run: _StoredRun) -> None:
    """Raise ValueError unless both runs played the same tasks under the same options."""
    first_identity, second_identity = identity_fields(first_run.about), identity_fields(second_run.about)
    if first_identity != second_identity:
        path, theirs, ours = next(differences(first_identity, second_identity))
        raise ValueError(
            f"{first_run.folder} and {second_run.folder} measure different things and are not compared: {path} is "
            f"{json.dumps(theirs)} and {json.dumps(ours)}. Only agents and {', '.join(DISPLAY)} may differ."
        )


def _whole(first_run: _StoredRun, second_run: _StoredRun) -> list[int]:
    """Return the indices of the common tasks that both runs played to the end."""
    common = sorted(first_run.trajectories.keys() & second_run.trajectories.keys())
    return [
        i for i in common if first_run.trajectories[i].failure is None and second_run.trajectories[i].failure is None
    ]


def _compare(first_run: _StoredRun, second_run: _StoredRun, wide: bool) -> RunComparison:
    """Return the differences of two runs, before Holm's correction over several comparisons."""
    common = sorted(first_run.trajectories.keys() & second_run.trajectories.keys())
    trajectories = [[run.trajectories[index] for index in common] for run in (first_run, second_run)]
    finished = [common.index(task) for task in _whole(first_run, second_run)]
    if not finished:
        raise ValueError(f"{first_run.folder} and {second_run.folder} have no common task that both played to the end.")
    failed = len(common) - len(finished)
    rows, clusters = _rows(first_run, [[run[i] for i in finished] for run in trajectories], wide)
    losses: Sequence[PairedDifference] = ()
    if failed > MAX_FAILED_SHARE * len(common):
        losses, _ = _rows(first_run, [as_losses(run, first_run.game) for run in trajectories], wide)
    return RunComparison(
        first=first_run.title,
        second=second_run.title,
        panel=first_run.setting.name,
        unit="success rate" if headline(first_run.game) == "success" else f"{first_run.game.spec.unit} per hand",
        pairs=len(finished),
        clusters=clusters,
        failed=failed,
        rows=tuple(rows),
        with_losses=tuple(losses),
    )


def _rows(
    first_run: _StoredRun, trajectories: Sequence[Sequence[Trajectory]], wide: bool
) -> tuple[list[PairedDifference], int]:
    """Return the differences and the number of clusters of two runs with the same tasks in the same order."""
    strata = [label(t) for t in trajectories[0]]
    # Games of one player have no opponents: each category of task counts by its number of tasks.
    weights = first_run.setting.panel.weights() or {name: float(strata.count(name)) for name in set(strata)}
    pairs = Pairs([cluster_of(t, first_run.game) for t in trajectories[0]], strata, weights)
    wins = headline(first_run.game) == "success"
    planned = trajectories[0][0].num_episodes
    episodes = range(planned) if wide else [k - 1 for k in select_episodes(planned)]

    def add(name: str, of: Callable[[Trajectory], float], proportion: bool = False) -> None:
        pairs.add(name, [of(t) for t in trajectories[0]], [of(t) for t in trajectories[1]], proportion)

    def score(episode: EpisodeResult) -> float:
        return float(episode.success) if wins else per_hand(episode)

    # After early stop, only meta-episodes without a success have later episodes. Their means are not comparable.
    if all(len(t.episodes) == planned for run in trajectories for t in run):
        for k in episodes:
            # `k=k` binds the current value; the lambda would otherwise see the last one.
            add(f"episode {k + 1}", lambda t, k=k: score(t.episodes[k]))  # type: ignore[misc]
        if planned > 1:
            add("gain", lambda t: score(t.episodes[-1]) - score(t.episodes[0]))
    for k in episodes:
        add(f"pass@{k + 1}", lambda t, k=k: float(any(e.success for e in t.episodes[: k + 1])), True)  # type: ignore[misc]
    return pairs.differences(), pairs.clusters


# -- tables ----------------------------------------------------------------------------------------------------

COLUMNS = (
    *("first", "second", "failures", "measure", "difference", "low", "high", "p", "holm", "detectable", "n"),
    *("only_first", "only_second", "mcnemar", "mcnemar_holm"),
)


def blocks(comparisons: Sequence[RunComparison]) -> list[Block]:
    """Return the tables, which fit 80 columns unless the names of agents are longer."""
    rows = [row for comparison in comparisons for row in (*comparison.rows, *comparison.with_losses)]
    tests = len(rows) + sum(row.mcnemar is not None for row in rows)
    # A blank line between two comparisons.
    return [block for comparison in comparisons for block in ("", *_table(comparison, tests))][1:]


def _table(comparison: RunComparison, tests: int) -> list[Block]:
    lines: list[Block] = [
        f"{comparison.first}  less  {comparison.second}",
        f"{comparison.panel}: {comparison.pairs} pairs of meta-episodes in {comparison.clusters} clusters",
    ]
    lines += ["", _block(comparison.rows, f"{comparison.unit}, 95%")]
    if comparison.failed:
        lines += ["", f"{comparison.failed} tasks are left out: one of the two failed there."]
    if comparison.with_losses:
        lines += ["", "With failures counted as losses", _block(comparison.with_losses, f"{comparison.unit}, 95%")]
    if solved := [row for row in comparison.rows if row.only is not None and row.mcnemar is not None]:
        chances = [[_chance(row.mcnemar), _chance(row.mcnemar_adjusted)] for row in solved]
        cells = [[row.measure, *map(str, row.only or ()), *p] for row, p in zip(solved, chances, strict=True)]
        lines += ["", "Tasks solved by one of the two alone, and McNemar's exact test of these counts"]
        lines.append(TextTable(["", "by the first", "by the second", "p", "Holm"], cells))
    lines += [
        "",
        f"p: permutation test; Holm: adjusted for all {tests} tests in all tables printed here;",
        f"detectable: the smallest difference that such a panel shows in {POWER:.0%} of all cases.",
        "Tasks of one cluster count together, but in McNemar's test, which takes each by",
        "itself.",
    ]
    return lines


def _block(rows: Sequence[PairedDifference], head: str) -> TextTable:
    cells = []
    for row in rows:
        ends = "" if row.low is None or row.high is None else f" [{row.low:+.3f}, {row.high:+.3f}]"
        detectable = NOT_KNOWN if row.detectable is None else f"{row.detectable:.3f}"
        cells.append([row.measure, f"{row.mean:+.3f}{ends}", _chance(row.p), _chance(row.adjusted), detectable])
    return TextTable(["", head, "p", "Holm", "detectable"], cells)


def _chance(p: float | None) -> str:
    """Return a p-value as text."""
    if p is None:
        return NOT_KNOWN
    return "< .0002" if p < 0.0002 else f"{p:.4f}"


def tsv(comparisons: Sequence[RunComparison]) -> str:
    """Return one line per row with tabs between the fields and unrounded numbers."""
    lines: list[Sequence[object]] = [COLUMNS]
    for comparison in comparisons:
        for failures, rows in (("left out", comparison.rows), ("losses", comparison.with_losses)):
            for row in rows:
                cells = (row.mean, row.low, row.high, row.p, row.adjusted, row.detectable, row.n)
                counts = (*(row.only or (None, None)), row.mcnemar, row.mcnemar_adjusted)
                lines.append([comparison.first, comparison.second, failures, row.measure, *cells, *counts])
    return format_delimited(lines, "\t")
