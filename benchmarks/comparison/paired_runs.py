"""Comparison of runs paired by task. Only agents, memories and styles may differ."""

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
from mage_envs.benchmarks.evaluation.scoring.scores import cluster_of, headline, label, per_hand
from mage_envs.benchmarks.evaluation.suites.environments import game_of
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.evaluation.tables.summary_table import NOT_KNOWN, format_delimited, select_episodes
from mage_envs.benchmarks.records.about import COMPARED, identity_fields, setting_of
from mage_envs.benchmarks.records.identity import differences
from mage_envs.benchmarks.records.record_store import Records, reading
from mage_envs.cli.tables import Block, TextTable
from mage_envs.core import Game
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
class _Played:
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
        first, *others = [_read(folder) for folder in folders]
        for other in others:
            _check(first, other)
        found = [_compare(first, other, wide) for other in others]
    tables = iter(adjust_jointly([rows for one in found for rows in (one.rows, one.with_losses)]))
    return [replace(one, rows=tuple(next(tables)), with_losses=tuple(next(tables))) for one in found]


def rank_runs(folders: Sequence[Path]) -> list[tuple[int, int]]:
    """Return the best and the worst rank of each run that the paired tests cannot rule out, for runs of one setting.

    The measure is the last episode, or the last Pass@k if meta-episodes stop early.
    """
    runs = [_read(folder) for folder in folders]
    pairs = [(one, other) for one, other in combinations(range(len(runs)), 2) if _whole(runs[one], runs[other])]
    tests = [_last(_compare(runs[one], runs[other], wide=False)) for one, other in pairs]
    found = {pair: (test.mean, test.p) for pair, test in zip(pairs, tests, strict=True)}
    return rank_intervals(len(runs), found)


def _last(comparison: RunComparison) -> PairedDifference:
    """Return the row of the last episode, or of the last Pass@k if episodes are not compared."""
    episodes = [row for row in comparison.rows if row.measure.startswith("episode ")]
    return (episodes or comparison.rows)[-1]


def _read(folder: Path) -> _Played:
    """Return the run of a folder. Raise ValueError if it is damaged or has no finished meta-episode."""
    with reading(folder):
        return _played(Records(folder))


def _played(records: Records) -> _Played:
    """Return a run from its records. Raise ValueError if it is damaged or has no finished meta-episode."""
    folder = records.folder
    if records.problems:
        raise ValueError(f"{folder} is damaged: {records.problems[0]}. mage eval … --resume repairs it.")
    setting = setting_of(records.about)
    played = dict(zip(sorted(records.lines), records.trajectories(), strict=True))
    if not any(t.failure is None for t in played.values()):
        raise ValueError(f"{folder} holds no finished meta-episode. Continue the run with --resume.")
    return _Played(
        folder=folder,
        about=records.about,
        setting=setting,
        game=game_of(setting.panel.env_id, setting.options),
        trajectories=played,
    )


def _check(first: _Played, other: _Played) -> None:
    """Raise ValueError unless both runs played the same tasks under the same options."""
    one, two = identity_fields(first.about), identity_fields(other.about)
    if one != two:
        place, there, here = next(differences(one, two))
        raise ValueError(
            f"{first.folder} and {other.folder} measure different things and are not compared: {place} is "
            f"{json.dumps(there)} and {json.dumps(here)}. Only agents, {' and '.join(COMPARED)} may differ."
        )


def _whole(first: _Played, second: _Played) -> list[int]:
    """Return the indices of the common tasks that both runs played to the end."""
    common = sorted(first.trajectories.keys() & second.trajectories.keys())
    return [i for i in common if first.trajectories[i].failure is None and second.trajectories[i].failure is None]


def _compare(first: _Played, second: _Played, wide: bool) -> RunComparison:
    """Return the differences of two runs, before Holm's correction over several comparisons."""
    common = sorted(first.trajectories.keys() & second.trajectories.keys())
    both = [[run.trajectories[index] for index in common] for run in (first, second)]
    whole = [common.index(task) for task in _whole(first, second)]
    if not whole:
        raise ValueError(f"{first.folder} and {second.folder} have no common task that both played to the end.")
    failed = len(common) - len(whole)
    rows, clusters = _rows(first, [[run[place] for place in whole] for run in both], wide)
    losses: Sequence[PairedDifference] = ()
    if failed > MAX_FAILED_SHARE * len(common):
        losses, _ = _rows(first, [as_losses(run, first.game) for run in both], wide)
    return RunComparison(
        first=first.title,
        second=second.title,
        panel=first.setting.name,
        unit="success rate" if headline(first.game) == "success" else f"{first.game.spec.unit} per hand",
        pairs=len(whole),
        clusters=clusters,
        failed=failed,
        rows=tuple(rows),
        with_losses=tuple(losses),
    )


def _rows(played: _Played, both: Sequence[Sequence[Trajectory]], wide: bool) -> tuple[list[PairedDifference], int]:
    """Return the differences and the number of clusters of two runs with the same tasks in the same order."""
    strata = [label(t) for t in both[0]]
    # Games of one player have no opponents: each category of task counts by its number of tasks.
    weights = played.setting.panel.weights() or {name: float(strata.count(name)) for name in set(strata)}
    pairs = Pairs([cluster_of(t, played.game) for t in both[0]], strata, weights)
    wins = headline(played.game) == "success"
    planned = both[0][0].num_episodes
    shown = range(planned) if wide else [k - 1 for k in select_episodes(planned)]

    def add(name: str, of: Callable[[Trajectory], float], proportion: bool = False) -> None:
        pairs.add(name, [of(t) for t in both[0]], [of(t) for t in both[1]], proportion)

    def score(episode: EpisodeResult) -> float:
        return float(episode.success) if wins else per_hand(episode)

    # After early stop, only meta-episodes without a success have later episodes. Their means are not comparable.
    if all(len(t.episodes) == planned for run in both for t in run):
        for k in shown:
            # `k=k` binds the current value; the lambda would otherwise see the last one.
            add(f"episode {k + 1}", lambda t, k=k: score(t.episodes[k]))  # type: ignore[misc]
        if planned > 1:
            add("gain", lambda t: score(t.episodes[-1]) - score(t.episodes[0]))
    for k in shown:
        add(f"pass@{k + 1}", lambda t, k=k: float(any(e.success for e in t.episodes[: k + 1])), True)  # type: ignore[misc]
    return pairs.differences(), pairs.clusters


# -- tables ----------------------------------------------------------------------------------------------------

COLUMNS = (
    *("first", "second", "failures", "measure", "difference", "low", "high", "p", "holm", "detectable", "n"),
    *("only_first", "only_second", "mcnemar", "mcnemar_holm"),
)


def blocks(comparisons: Sequence[RunComparison]) -> list[Block]:
    """Return the tables, which fit 80 columns unless the names of agents are longer."""
    rows = [row for one in comparisons for row in (*one.rows, *one.with_losses)]
    tests = len(rows) + sum(row.mcnemar is not None for row in rows)
    # A blank line between two comparisons.
    return [block for one in comparisons for block in ("", *_table(one, tests))][1:]


def _table(one: RunComparison, tests: int) -> list[Block]:
    lines: list[Block] = [
        f"{one.first}  less  {one.second}",
        f"{one.panel}: {one.pairs} pairs of meta-episodes in {one.clusters} clusters",
    ]
    lines += ["", _block(one.rows, f"{one.unit}, 95%")]
    if one.failed:
        lines += ["", f"{one.failed} tasks are left out: one of the two failed there."]
    if one.with_losses:
        lines += ["", "With failures counted as losses", _block(one.with_losses, f"{one.unit}, 95%")]
    if solved := [row for row in one.rows if row.only is not None and row.mcnemar is not None]:
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
        least = NOT_KNOWN if row.detectable is None else f"{row.detectable:.3f}"
        cells.append([row.measure, f"{row.mean:+.3f}{ends}", _chance(row.p), _chance(row.adjusted), least])
    return TextTable(["", head, "p", "Holm", "detectable"], cells)


def _chance(p: float | None) -> str:
    """Return a p-value as text."""
    if p is None:
        return NOT_KNOWN
    return "< .0002" if p < 0.0002 else f"{p:.4f}"


def tsv(comparisons: Sequence[RunComparison]) -> str:
    """Return one line per row with tabs between the fields and unrounded numbers."""
    lines: list[Sequence[object]] = [COLUMNS]
    for one in comparisons:
        for failures, rows in (("left out", one.rows), ("losses", one.with_losses)):
            for row in rows:
                cells = (row.mean, row.low, row.high, row.p, row.adjusted, row.detectable, row.n)
                counts = (*(row.only or (None, None)), row.mcnemar, row.mcnemar_adjusted)
                lines.append([one.first, one.second, failures, row.measure, *cells, *counts])
    return format_delimited(lines, "\t")
