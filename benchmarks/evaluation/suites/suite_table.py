"""A suite's table: columns by panels, with baselines, exact values, and the paper's scores in a separate block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from benchmarks.evaluation.scoring.call_stats import REPLY_PROBLEMS
from benchmarks.evaluation.scoring.estimates import Estimate
from benchmarks.evaluation.scoring.scores import ScoreRow, Summary
from benchmarks.evaluation.suites.paper import is_reported_at, reported
from benchmarks.evaluation.tables.layout import WIDTH, fitted, spread
from benchmarks.evaluation.tables.summary_table import NOT_KNOWN, aligned, delimited
from opponents.exact import Objective

LONGEST = 21
"""Maximum number of characters of a row's name on a terminal."""
EXACT = ("= best without memory", "= optimal learner", "= best response")
"""Rows of exact values: of the best policy without information, of the learner that knows the pool and maximises the
sum of the episodes, and of the best response."""
FIELDS = (
    *("panel", "protocol", "episodes", "column", "agent", "pass_at_k", "low", "high", "measure"),
    *("first", "first_low", "first_high", "last", "last_low", "last_high", "gain", "gain_low", "gain_high"),
    *("best_without_memory", "optimal_learner", "best_response", "n", "failed", *REPLY_PROBLEMS),
)
Shown = tuple[ScoreRow, Objective] | str
"""Content of a cell: scores, or text."""


@dataclass(frozen=True)
class SuiteCell:
    """Scores of one column at one setting."""

    panel: str
    """Short name."""
    protocol: str
    episodes: int
    column: str
    summary: Summary


def text_table(
    suite: str,
    cells: Sequence[SuiteCell],
    columns: Sequence[str],
    panels: Sequence[tuple[str, str]],
    longest: int | None = None,
) -> str:
    """Return the tables of all settings.

    Args:
        suite: Name of the suite.
        cells: Scores of all runs.
        columns: Names of the columns in their order.
        panels: Full and short name of each panel in their order.
        longest: Maximum number of characters of a row's name, or None for no limit. Long names are shortened in the
            middle.
    """

    def blocks(title: str, rows: Mapping[str, Mapping[str, Shown]], cell: Callable[[ScoreRow, Objective], str]) -> None:
        lines.extend(["", title, *_blocks(rows, columns, shorts, cell, longest)])

    lines: list[str] = []
    shorts = [short for _, short in panels]
    for protocol, episodes in dict.fromkeys((cell.protocol, cell.episodes) for cell in cells):
        here = [cell for cell in cells if (cell.protocol, cell.episodes) == (protocol, episodes)]
        sizes = sorted({cell.summary.overall.meta_episodes for cell in here})
        played = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
        lines += [f"{suite}: K = {episodes}, protocol {protocol}, {played} meta-episodes a panel"]
        rows = _rows(here, columns)
        solved = f"Success within {episodes} episodes (pass@{episodes}), 95% intervals, in percent"
        blocks(solved, rows, _solved)
        if not any(cell.summary.early_stop for cell in here):
            last = f"Episode {episodes}: chips and the like per hand, ± half of the interval; else success"
            blocks(last, {**rows, **_exact(here)}, _last)
            gain = f"Gain from episode 1 to {episodes}, likewise; success in percent"
            if episodes > 1:
                blocks(gain, {name: rows[name] for name in columns}, _gain)
        lines += [f"{cell.column}, {cell.panel}: {text}" for cell in here for text in cell.summary.overall.warnings()]
        lines.append("")
    if any(is_reported_at(cell.protocol, cell.episodes) for cell in cells):
        lines += _paper(suite, panels)
    return "\n".join(lines) + "\n"


def _rows(here: Sequence[SuiteCell], columns: Sequence[str]) -> dict[str, dict[str, Shown]]:
    """Return the rows by name and panel: first the columns, then the baselines."""
    rows: dict[str, dict[str, Shown]] = {name: {} for name in columns}
    for cell in here:
        rows[cell.column][cell.panel] = cell.summary.overall, cell.summary.objective
        # All columns of a panel have the same baselines, so a later one overwrites equal values.
        for floor in cell.summary.floors:
            rows.setdefault(floor.opponent, {})[cell.panel] = floor, cell.summary.objective
    return rows


def _exact(here: Sequence[SuiteCell]) -> dict[str, dict[str, Shown]]:
    """Return the exact values of the last episode, by name and panel.

    Columns with options of their own may have different values. The text table then shows `varies`; the TSV file has
    each.
    """
    rows: dict[str, dict[str, Shown]] = {}
    for short in dict.fromkeys(cell.panel for cell in here):
        known = [_known(cell.summary) for cell in here if cell.panel == short]
        wins = any(cell.summary.objective == "success" for cell in here if cell.panel == short)
        for name, values in zip(EXACT, zip(*known, strict=True), strict=True):
            # Rounding ignores differences of floating-point arithmetic between the columns.
            found = {None if value is None else round(value, 9) for value in values}
            if found != {None}:
                value = found.pop()
                if found or value is None:
                    text = "varies"
                else:
                    text = f"{100 * value:.0f}" if wins else f"{value:+.2f}"
                rows.setdefault(name, {})[short] = text
    return rows


def _known(summary: Summary) -> tuple[float | None, ...]:
    """Return the values of `EXACT` in the last episode."""
    row = summary.overall
    if not row.episodes or len(row.episodes) < len(row.pass_at):
        return (None,) * len(EXACT)
    measure = row.episodes[-1].measure(summary.objective)
    return measure.uninformed, row.optimal[-1] if row.optimal else None, measure.ceiling


def _blocks(
    rows: Mapping[str, Mapping[str, Shown]],
    columns: Sequence[str],
    panels: Sequence[str],
    shown: Callable[[ScoreRow, Objective], str],
    longest: int | None,
) -> list[str]:
    """Return lines of at most `WIDTH` characters, unless names are longer, with as many panels side by side as fit.

    Rows that are not in `columns` are shown only if one of these panels has them.
    """
    names = {name: name if longest is None else fitted(name, longest) for name in rows}
    cells = {panel: {name: _cell(row.get(panel), shown) for name, row in rows.items()} for panel in panels}
    width = {panel: 2 + max(len(panel), *map(len, cells[panel].values())) for panel in panels}
    lines: list[str] = []
    left = list(panels)
    while left:
        beside = 1
        while beside < len(left) and max(map(len, names.values())) + sum(width[p] for p in left[: beside + 1]) <= WIDTH:
            beside += 1
        now, left = left[:beside], left[beside:]
        here = [name for name, row in rows.items() if name in columns or not row.keys().isdisjoint(now)]
        body = [[names[name], *(cells[panel][name] for panel in now)] for name in here]
        lines += [*([""] if now[0] != panels[0] else []), *aligned(["", *now], body)]
    return lines


def _cell(found: Shown | None, shown: Callable[[ScoreRow, Objective], str]) -> str:
    if found is None:
        return NOT_KNOWN
    return found if isinstance(found, str) else shown(*found)


def _solved(row: ScoreRow, objective: Objective) -> str:
    return spread(row.pass_at[-1], True) if row.pass_at else NOT_KNOWN


def _last(row: ScoreRow, objective: Objective) -> str:
    if len(row.episodes) < len(row.pass_at) or not row.episodes:
        return NOT_KNOWN
    estimate = row.episodes[-1].measure(objective).estimate
    return spread(estimate, True) if objective == "success" else _signed(estimate)


def _gain(row: ScoreRow, objective: Objective) -> str:
    gain = row.success_gain if objective == "success" else row.gain
    if gain is None:
        return NOT_KNOWN
    return _signed(gain, 100, ".0f") if objective == "success" else _signed(gain)


def _signed(estimate: Estimate, times: int = 1, form: str = ".2f") -> str:
    spread = "" if estimate.half is None else f"±{times * estimate.half:{form}}"
    return f"{times * estimate.mean:+{form}}{spread}"


def tsv(cells: Sequence[SuiteCell]) -> str:
    """Return the rows of `table_rows` with tabs between the fields."""
    return delimited([FIELDS, *(list(row.values()) for row in table_rows(cells))], "\t")


def table_rows(cells: Sequence[SuiteCell]) -> list[dict[str, object]]:
    """Return one row per run, then one per baseline of a panel, with unrounded numbers by their names in `FIELDS`."""
    lines = []
    for cell in cells:
        summary = cell.summary
        lines.append(_line(cell, cell.column, summary.agent, summary.overall, *_known(summary)))
    floors = {(c.panel, c.protocol, c.episodes, row.opponent): (c, row) for c in cells for row in c.summary.floors}
    lines += [_line(cell, row.opponent, "", row, *[None] * len(EXACT)) for cell, row in floors.values()]
    return [dict(zip(FIELDS, line, strict=True)) for line in lines]


def _line(cell: SuiteCell, column: str, agent: str, row: ScoreRow, *exact: float | None) -> list[object]:
    """Return the fields of one line."""
    objective = cell.summary.objective
    means = [episode.measure(objective).estimate for episode in row.episodes]
    whole = not cell.summary.early_stop and bool(means)
    estimates = [
        row.pass_at[-1] if row.pass_at else None,
        means[0] if whole else None,
        means[-1] if whole else None,
        row.success_gain if objective == "success" else row.gain,
    ]
    spread = [value for e in estimates for value in ((None,) * 3 if e is None else (e.mean, e.low, e.high))]
    where = [cell.panel, cell.protocol, cell.episodes, column, agent]
    return [
        *where,
        *spread[:3],
        objective,
        *spread[3:],
        *exact,
        row.meta_episodes,
        row.failures,
        *row.reply_problems().values(),
    ]


def _paper(suite: str, panels: Sequence[tuple[str, str]]) -> list[str]:
    """Return the lines of the paper's scores with their standard errors; empty if the paper has none for the suite."""
    told = reported()
    lines: list[str] = []
    for one in told["tables"]:
        if one["suite"] != suite:
            continue
        shorts = dict(panels)
        count = told["meta_episodes"]
        title = f"As reported in {told['source']} (K = {told['episodes']}), not measured here:"
        lines += ["" if lines else title]
        if len(lines) == 1:
            lines.append(f"one run of {count} each with Qwen3-4B, percent with the standard error")
        lines.append(f"{one['measure']}, {one['section']}")
        cells = [
            [method, *(f"{100 * p:.0f} ({100 * sqrt(p * (1 - p) / count):.0f})" for p in shares)]
            for method, shares in one["rows"].items()
        ]
        lines += aligned(["", *(shorts.get(panel, panel) for panel in one["columns"])], cells)
    return lines
