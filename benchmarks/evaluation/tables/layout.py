"""A summary in narrow tables, which fit 80 columns unless names are long."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.evaluation.scoring.estimates import Estimate
from benchmarks.evaluation.scoring.scores import ScoreRow, Summary
from benchmarks.evaluation.tables.summary_table import (
    NOT_KNOWN,
    PROBLEM_COLUMNS,
    number,
    problem_cells,
    shown_episodes,
)
from mage_envs.cli.tables import Block, TextTable
from mage_envs.text.visible import one_line


def heading(summary: Summary) -> list[Block]:
    """Return the lines above the tables: agent, environment and panel."""
    lines: list[Block] = [f"{one_line(summary.agent)} in {summary.env_id}"]
    return [*lines, summary.panel] if summary.panel else lines


def means(summary: Summary) -> list[Block]:
    """Return the one table of a run whose decisions cannot be judged: the measure by opponent and episode."""
    rows = _rows(summary)
    return _blocks(summary, rows)[:3]


def narrow(summary: Summary) -> list[Block]:
    """Return all scores in blocks. If there are more than five episodes, 1, 2, 3, 5 and the last are shown."""
    return [*_blocks(summary, _rows(summary)), *_kinds(summary)]


def _rows(summary: Summary) -> list[ScoreRow]:
    """Return the rows of all tables."""
    rows = [*summary.rows, *([summary.overall] if len(summary.rows) > 1 else []), *summary.floors]
    return rows + ([] if summary.with_losses is None else [summary.with_losses])


def _blocks(summary: Summary, rows: Sequence[ScoreRow]) -> list[Block]:
    """Return the tables of the rows, each with a blank line and its title before it."""
    planned = max(len(row.pass_at) for row in rows)
    shown = shown_episodes(planned)
    wins = summary.objective == "success"
    measure = "success rate" if wins else f"{summary.unit} per hand"
    lines: list[Block] = []

    def block(title: str, columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
        names = [row.opponent or "all" for row in rows]
        named = [[name, *one] for name, one in zip(names, cells, strict=True)]
        lines.extend(["", title, TextTable([summary.rows_are, *columns], named)])

    episodes = [f"ep. {k}" for k in shown]
    ends = "95% intervals, in percent" if wins else "with half of the 95% interval"
    means = [[spread(e, wins) for e in _means(row, summary, shown)] for row in rows]
    solved = [[spread(e, True) for e in _at(row.pass_at, shown)] for row in rows]
    if summary.early_stop:
        block("Solved by episode k, 95% intervals, in percent", [f"pass@{k}" for k in shown], solved)
        block(f"{_capital(measure)} of those who had not succeeded before, {ends}", episodes, means)
    else:
        block(f"{_capital(measure)}, {ends}", episodes, means)
        known = ["blind", "optimal", "ceiling", "regret"]
        columns = [*([f"gain 1-{planned}"] if planned > 1 else []), *known]
        title = f"Gain, and episode {planned} beside what is known exactly"
        block(
            title if planned > 1 else "Beside what is known exactly",
            columns,
            [_exact(r, summary, planned) for r in rows],
        )
        passed = [[*cells, _plain(row.first_success)] for cells, row in zip(solved, rows, strict=True)]
        block(
            "Success within the first k episodes, 95% intervals, in percent; mean first one",
            [*(f"pass@{k}" for k in shown), "first"],
            passed,
        )
        if not wins:
            each = [_at([one.success.estimate for one in row.episodes], shown) for row in rows]
            block("Success in each episode, in percent", episodes, [[spread(e, True) for e in row] for row in each])
    block(
        "Shares of episodes; means per meta-episode",
        ["n", "failed", "draws", "timeouts", "calls", "tokens", "seconds"],
        [_rates(row) for row in rows],
    )
    block("Shares of replies that could not be used", PROBLEM_COLUMNS, [problem_cells(row) for row in rows])
    return lines


def _means(row: ScoreRow, summary: Summary, shown: Sequence[int]) -> list[Estimate | None]:
    return _at([episode.measure(summary.objective).estimate for episode in row.episodes], shown)


def _at(estimates: Sequence[Estimate], shown: Sequence[int]) -> list[Estimate | None]:
    return [estimates[k - 1] if k <= len(estimates) else None for k in shown]


def _exact(row: ScoreRow, summary: Summary, planned: int) -> list[str]:
    wins = summary.objective == "success"
    last = row.episodes[-1].measure(summary.objective) if 0 < len(row.episodes) == planned else None
    optimal = row.optimal[-1] if 0 < len(row.optimal) == planned else None
    cells = [None if last is None else last.uninformed, optimal, None if last is None else last.ceiling]
    gain = row.success_gain if wins else row.gain
    gains = [spread(gain, False)] if planned > 1 else []
    return [*gains, *map(number, cells), number(None if last is None else last.regret)]


def _rates(row: ScoreRow) -> list[str]:
    count = max(len(row.episodes), 1)
    draws = sum(episode.draws for episode in row.episodes) / count
    timeouts = sum(episode.timeouts for episode in row.episodes) / count
    costs = row.costs
    if costs is None:
        spent = [NOT_KNOWN] * 3
    else:
        known = costs.tokens_in is not None and costs.tokens_out is not None
        tokens = f"{costs.tokens_in or 0:.0f}+{costs.tokens_out or 0:.0f}" if known else NOT_KNOWN
        spent = [f"{costs.calls:.1f}", tokens, f"{costs.seconds:.2f}"]
    shares = [f"{share:.1%}" for share in (draws, timeouts)]
    return [str(row.meta_episodes), str(row.failures), *shares, *spent]


def _kinds(summary: Summary) -> list[Block]:
    """Return the blocks of the calls by kind and of the failures by cause."""
    row = summary.overall
    cells = [
        [kind, str(one.calls), *(f"{share:.1%}" for share in (one.invalid, one.cut, one.overflow, one.no_text))]
        for kind, one in row.calls.items()
    ]
    columns = ["kind", "calls", "invalid", "cut", "overflow", "no text"]
    lines: list[Block] = ["", "Answers by kind of call", TextTable(columns, cells)]
    if row.failed_by:
        told = ", ".join(f"{kind} {count}" for kind, count in row.failed_by.items())
        lines += ["", f"Meta-episodes that failed, by what broke: {told}"]
    return lines


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


def _plain(value: float | None) -> str:
    return NOT_KNOWN if value is None else f"{value:.2f}"
