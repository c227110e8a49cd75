"""A summary in one narrow table, which fits 80 columns unless names are long."""

from __future__ import annotations

from collections.abc import Sequence

from mage_envs.benchmarks.evaluation.scoring.estimates import Estimate
from mage_envs.benchmarks.evaluation.scoring.scores import ScoreRow, Summary
from mage_envs.benchmarks.evaluation.tables.summary_table import NOT_KNOWN, select_episodes
from mage_envs.cli.tables import Block, TextTable
from mage_envs.text.visible import one_line


def heading(summary: Summary) -> list[Block]:
    """Return the lines above the tables: agent, environment and panel."""
    lines: list[Block] = [f"{one_line(summary.agent)} in {summary.env_id}"]
    return [*lines, summary.panel] if summary.panel else lines


def means(summary: Summary) -> list[Block]:
    """Return the one table of a run whose decisions cannot be judged: the measure by opponent and episode.

    If there are more than five episodes, 1, 2, 3, 5 and the last are shown.
    """
    rows = [*summary.rows, *([summary.overall] if len(summary.rows) > 1 else []), *summary.floors]
    rows += [] if summary.with_losses is None else [summary.with_losses]
    planned = max(len(row.pass_at) for row in rows)
    episodes = select_episodes(planned)
    wins = summary.objective == "success"
    measure = "success rate" if wins else f"{summary.unit} per hand"
    ends = "95% intervals, in percent" if wins else "with half of the 95% interval"
    names = [row.opponent or "all" for row in rows]
    if summary.early_stop:
        cells = [[spread(value, True) for value in _select(row.pass_at, episodes)] for row in rows]
        title, columns = "Solved by episode k, 95% intervals, in percent", [f"pass@{k}" for k in episodes]
    else:
        cells = [[spread(value, wins) for value in _means(row, summary, episodes)] for row in rows]
        title, columns = f"{_capital(measure)}, {ends}", [f"ep. {k}" for k in episodes]
    table = TextTable([summary.rows_are, *columns], [[name, *row] for name, row in zip(names, cells, strict=True)])
    return ["", title, table]


def _means(row: ScoreRow, summary: Summary, episodes: Sequence[int]) -> list[Estimate | None]:
    return _select([episode.measure(summary.objective).estimate for episode in row.episodes], episodes)


def _select(estimates: Sequence[Estimate], episodes: Sequence[int]) -> list[Estimate | None]:
    return [estimates[k - 1] if k <= len(estimates) else None for k in episodes]


def kinds(summary: Summary) -> list[Block]:
    """Return the blocks of the calls by kind."""
    row = summary.overall
    cells = [
        [
            kind,
            str(shares.calls),
            *(f"{value:.1%}" for value in (shares.invalid, shares.cut, shares.overflow, shares.no_text)),
        ]
        for kind, shares in row.calls.items()
    ]
    columns = ["kind", "calls", "invalid", "cut", "overflow", "no text"]
    return ["", "Answers by kind of call", TextTable(columns, cells)]


def failures(summary: Summary) -> list[Block]:
    """Return the line of the failed meta-episodes by cause, or nothing if none failed."""
    counts = summary.overall.failed_by
    text = ", ".join(f"{kind} {count}" for kind, count in counts.items())
    return ["", f"Meta-episodes that failed, by what broke: {text}"] if counts else []


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def spread(estimate: Estimate | None, proportion: bool) -> str:
    """Return `48 [43,54]` in percent for a proportion, whose interval is not symmetric; else `0.123±.05`."""
    if estimate is None:
        return NOT_KNOWN
    if estimate.low is None or estimate.high is None:
        return f"{estimate.mean:.0%}".rstrip("%") if proportion else f"{round(estimate.mean, 3) + 0.0:.3f}"
    if proportion:
        return f"{100 * estimate.mean:.0f} [{100 * estimate.low:.0f},{100 * estimate.high:.0f}]"
    return f"{round(estimate.mean, 3) + 0.0:.3f}±" + f"{(estimate.high - estimate.low) / 2:.2f}".removeprefix("0")
