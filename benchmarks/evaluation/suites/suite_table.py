"""A suite's table: rows by panels, with baselines, exact values, and the paper's scores in a separate block."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import NamedTuple

from mage_envs.benchmarks.evaluation.scoring.call_stats import REPLY_PROBLEMS
from mage_envs.benchmarks.evaluation.scoring.estimates import Estimate
from mage_envs.benchmarks.evaluation.scoring.runs import across_runs
from mage_envs.benchmarks.evaluation.scoring.scores import ScoreRow, Summary
from mage_envs.benchmarks.evaluation.suites.paper import load_reported_scores
from mage_envs.benchmarks.evaluation.tables.layout import spread
from mage_envs.benchmarks.evaluation.tables.markup import latex, markdown
from mage_envs.benchmarks.evaluation.tables.summary_table import NOT_KNOWN, format_delimited
from mage_envs.cli.tables import Block, TextTable
from mage_envs.opponents.exact import Objective
from mage_envs.text.visible import one_line

WIDTH = 80
"""Maximum number of columns of a table, unless names are longer."""
MARK = "*"
"""Mark of a row's cell that has a note."""
EXACT = ("= blind", "= best learner", "= knows the opponent")
"""Rows of exact values: of the best policy without information, of the learner that knows the pool and maximises the
sum of the episodes, and of the best play against a known opponent."""
FIELDS = (
    *("panel", "protocol", "episodes", "row", "agent", "pass_at_k", "low", "high", "measure"),
    *("first", "first_low", "first_high", "last", "last_low", "last_high", "gain", "gain_low", "gain_high"),
    *("blind", "best_learner", "knows_the_opponent", "draws", "n", "failed", *REPLY_PROBLEMS),
    "note",
)
TableEntry = tuple[ScoreRow, Objective] | str
"""Content of a cell: scores, or text."""


@dataclass(frozen=True)
class SuiteCell:
    """Scores of one row at one setting."""

    panel: str
    """Short name."""
    protocol: str
    episodes: int
    row: str
    """Name of the row, or of the model if several rows are its runs."""
    summary: Summary
    note: str = ""
    """Remark on options of the row's own, or on other tasks than those of the panel; empty without them."""
    reported: str | None = None
    """Panel whose reported scores may be shown next to this run, or None."""
    runs: int = 1
    """Number of runs, over which the intervals are if there are several."""
    equal_runs: int = 0
    """Number of these runs that have all scores of an earlier one."""


def merge_models(cells: Sequence[SuiteCell], models: Mapping[str, str]) -> list[SuiteCell]:
    """Return the cells with those of one model, at one setting, as one. `models` has the model of some rows."""
    groups: dict[tuple[str, str, int, str], list[SuiteCell]] = {}
    for cell in cells:
        name = models.get(cell.row, cell.row)
        groups.setdefault((cell.panel, cell.protocol, cell.episodes, name), []).append(cell)
    return [_merge_runs(key[-1], runs) if runs[0].row in models else runs[0] for key, runs in groups.items()]


def _merge_runs(model: str, cells: Sequence[SuiteCell]) -> SuiteCell:
    summary = cells[0].summary
    runs = f"{len(cells)} run{'s' * (len(cells) > 1)} of {model}"
    scores = [cell.summary.overall.episodes for cell in cells]
    merged = replace(summary, agent=runs, overall=across_runs([cell.summary.overall for cell in cells]), rows=())
    return replace(
        cells[0],
        row=model,
        summary=merged,
        runs=len(cells),
        equal_runs=sum(score in scores[:number] for number, score in enumerate(scores)),
    )


class SuiteBlock(NamedTuple):
    """One measure of all rows at one setting."""

    title: str
    panels: Sequence[str]
    """Columns of the table."""
    cells: Mapping[str, Mapping[str, str]]
    """Name of a row to panel to text."""
    everywhere: Collection[str]
    """Rows that a part of the panels shows even if it has none of their cells."""

    def rows(self, panels: Sequence[str]) -> list[list[str]]:
        """Return the rows of some panels."""
        names = [
            name for name, row in self.cells.items() if name in self.everywhere or not row.keys().isdisjoint(panels)
        ]
        return [[name, *(self.cells[name].get(panel, NOT_KNOWN) for panel in panels)] for name in names]

    def grid(self) -> list[list[str]]:
        """Return header and rows of all panels."""
        return [["", *self.panels], *self.rows(self.panels)]


class SuitePart(NamedTuple):
    """Tables of one setting, or of the paper's scores."""

    title: Sequence[str]
    blocks: Sequence[SuiteBlock]
    warnings: Sequence[str]


def suite_tables(
    suite: str, cells: Sequence[SuiteCell], names: Sequence[str], panels: Sequence[tuple[str, str]]
) -> Iterator[SuitePart]:
    """Yield the tables of all settings, then the paper's scores.

    Args:
        names: Names of the rows in their order.
        panels: Full and short name of each panel in their order.
    """
    shorts = [short for _, short in panels]
    for protocol, episodes in dict.fromkeys((cell.protocol, cell.episodes) for cell in cells):
        setting_cells = [cell for cell in cells if (cell.protocol, cell.episodes) == (protocol, episodes)]
        sizes = sorted({round(cell.summary.overall.meta_episodes / cell.runs) for cell in setting_cells})
        episodes_text = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
        rows = _rows(setting_cells, names)
        noted = {(cell.row, cell.panel) for cell in setting_cells if cell.note}
        solved_title = f"Success within {episodes} episodes (pass@{episodes}), 95% intervals, in percent"
        tables = [(solved_title, rows, _pass_rate)]
        if any(cell.summary.overall.episodes and cell.summary.overall.episodes[-1].draws for cell in setting_cells):
            draws_title = f"Draws in episode {episodes}, in percent of the meta-episodes that played it"
            tables.append((draws_title, rows, _draws))
        if not any(cell.summary.early_stop for cell in setting_cells):
            last_title = f"Episode {episodes}: chips and the like per hand, ± half of the interval; else success"
            tables.append((last_title, {**rows, **_exact_rows(setting_cells)}, _last_episode))
            gain_title = f"Gain from episode 1 to {episodes}, likewise; success in percent"
            if episodes > 1:
                tables.append((gain_title, {name: rows[name] for name in names}, _gain))
        yield SuitePart(
            title=[f"{suite}: K = {episodes}, protocol {protocol}, {episodes_text} meta-episodes a panel"],
            blocks=[
                SuiteBlock(
                    title,
                    shorts,
                    {
                        name: {
                            panel: _cell(entry, form) + MARK * ((name, panel) in noted) for panel, entry in row.items()
                        }
                        for name, row in entry_rows.items()
                    },
                    names,
                )
                for title, entry_rows, form in tables
            ],
            warnings=[
                *(
                    f"{cell.row}, {cell.panel}: {text}"
                    for cell in setting_cells
                    for text in cell.summary.overall.warnings()
                ),
                *_notes(setting_cells),
                *_remarks(setting_cells),
            ],
        )
    comparable = {cell.reported for cell in cells}
    yield from _paper(suite, [(panel, short) for panel, short in panels if panel in comparable])


def _remarks(cells: Sequence[SuiteCell]) -> Iterator[str]:
    """Yield one line per panel and note, with the rows that it concerns unless it concerns all of the panel."""
    noted: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        if cell.note:
            noted.setdefault((cell.panel, cell.note), []).append(cell.row)
    for (panel, note), rows in noted.items():
        is_everywhere = {cell.row for cell in cells if cell.panel == panel} == set(rows)
        yield f"{MARK} {panel if is_everywhere else ', '.join([panel, *rows])}: {note}"


def _notes(cells: Sequence[SuiteCell]) -> Iterator[str]:
    """Yield one line per model with several runs."""
    counts: dict[str, set[int]] = {}
    for cell in cells:
        counts.setdefault(cell.row, set()).add(cell.runs)
    for name, run_counts in counts.items():
        if max(run_counts) > 1:
            counts_text = " or ".join(map(str, sorted(run_counts)))
            yield f"{name}: mean of {counts_text} runs of the same tasks, and intervals across these runs"
    for cell in cells:
        if cell.equal_runs:
            yield (
                f"{cell.row}, {cell.panel}: {cell.equal_runs} of its runs repeat the scores of another one, as with "
                "the same sampling seed. Such runs show no variation."
            )


def text_blocks(tables: Iterable[SuitePart]) -> list[Block]:
    """Return the tables for a terminal or a text file."""
    lines: list[Block] = []
    for part in tables:
        lines += part.title
        for block in part.blocks:
            lines += ["", block.title, *_fold(block)]
        lines += [*part.warnings, ""]
    return lines


def markdown_table(tables: Iterable[SuitePart]) -> str:
    """Return the tables as Markdown."""
    texts = []
    for part in tables:
        texts.append(f"## {' '.join(part.title)}\n")
        texts += [f"{block.title}\n\n{markdown(block.grid())}" for block in part.blocks]
        texts += [f"* {text}\n" for text in part.warnings]
    return "\n".join(texts)


def latex_table(tables: Iterable[SuitePart]) -> str:
    """Return the tables as LaTeX, which requires the package booktabs."""
    texts = []
    for part in tables:
        texts += [latex(block.grid(), f"{' '.join(part.title)}. {block.title}.") for block in part.blocks]
        # A comment is one line, so a warning cannot become LaTeX.
        texts += [f"% {one_line(text)}\n" for text in part.warnings]
    return "\n".join(texts)


def _rows(cells: Sequence[SuiteCell], names: Sequence[str]) -> dict[str, dict[str, TableEntry]]:
    """Return the rows by name and panel: first those of the suite, then the baselines."""
    rows: dict[str, dict[str, TableEntry]] = {name: {} for name in names}
    for cell in cells:
        rows[cell.row][cell.panel] = cell.summary.overall, cell.summary.objective
        # All rows of a panel have the same baselines, so a later one overwrites equal values.
        for floor in cell.summary.floors:
            rows.setdefault(floor.opponent, {})[cell.panel] = floor, cell.summary.objective
    return rows


def _exact_rows(cells: Sequence[SuiteCell]) -> dict[str, dict[str, TableEntry]]:
    """Return the exact values of the last episode, by name and panel.

    Rows with options of their own may have different values. The text table then shows `varies`; the TSV file has
    each.
    """
    rows: dict[str, dict[str, TableEntry]] = {}
    for short in dict.fromkeys(cell.panel for cell in cells):
        exact_values = [_exact_values(cell.summary) for cell in cells if cell.panel == short]
        wins = any(cell.summary.objective == "success" for cell in cells if cell.panel == short)
        for name, values in zip(EXACT, zip(*exact_values, strict=True), strict=True):
            # Rounding ignores differences of floating-point arithmetic between the rows.
            distinct = {None if value is None else round(value, 9) for value in values}
            if distinct != {None}:
                value = distinct.pop()
                if distinct or value is None:
                    text = "varies"
                else:
                    text = f"{100 * value:.0f}" if wins else f"{value:+.2f}"
                rows.setdefault(name, {})[short] = text
    return rows


def _exact_values(summary: Summary) -> tuple[float | None, ...]:
    """Return the values of `EXACT` in the last episode."""
    row = summary.overall
    if not row.episodes or len(row.episodes) < len(row.pass_at):
        return (None,) * len(EXACT)
    measure = row.episodes[-1].measure(summary.objective)
    return measure.blind, row.optimal[-1] if row.optimal else None, measure.ceiling


def _fold(block: SuiteBlock) -> list[Block]:
    """Return tables of at most `WIDTH` columns, unless names are longer, with as many panels side by side as fit."""
    columns = {panel: [row.get(panel, NOT_KNOWN) for row in block.cells.values()] for panel in block.panels}
    width = {panel: 2 + max(len(panel), *map(len, columns[panel])) for panel in block.panels}
    lines: list[Block] = []
    remaining = list(block.panels)
    while remaining:
        count = 1
        while (
            count < len(remaining)
            and max(map(len, block.cells)) + sum(width[p] for p in remaining[: count + 1]) <= WIDTH
        ):
            count += 1
        panels, remaining = remaining[:count], remaining[count:]
        lines += [*([""] if panels[0] != block.panels[0] else []), TextTable(["", *panels], block.rows(panels))]
    return lines


def _cell(entry: TableEntry, form: Callable[[ScoreRow, Objective], str]) -> str:
    return entry if isinstance(entry, str) else form(*entry)


def _pass_rate(row: ScoreRow, objective: Objective) -> str:
    return spread(row.pass_at[-1], True) if row.pass_at else NOT_KNOWN


def _draws(row: ScoreRow, objective: Objective) -> str:
    return f"{100 * row.episodes[-1].draws:.0f}" if row.episodes else NOT_KNOWN


def _last_episode(row: ScoreRow, objective: Objective) -> str:
    if len(row.episodes) < len(row.pass_at) or not row.episodes:
        return NOT_KNOWN
    estimate = row.episodes[-1].measure(objective).estimate
    return spread(estimate, True) if objective == "success" else _format_signed(estimate)


def _gain(row: ScoreRow, objective: Objective) -> str:
    gain = row.success_gain if objective == "success" else row.gain
    if gain is None:
        return NOT_KNOWN
    return _format_signed(gain, 100, ".0f") if objective == "success" else _format_signed(gain)


def _format_signed(estimate: Estimate, times: int = 1, form: str = ".2f") -> str:
    spread = "" if estimate.half is None else f"±{times * estimate.half:{form}}"
    return f"{times * estimate.mean:+{form}}{spread}"


def tsv(cells: Sequence[SuiteCell]) -> str:
    """Return the rows of `table_rows` with tabs between the fields."""
    return format_delimited([FIELDS, *(list(row.values()) for row in table_rows(cells))], "\t")


def table_rows(cells: Sequence[SuiteCell]) -> list[dict[str, object]]:
    """Return one row per run, then one per baseline of a panel, with unrounded numbers by their names in `FIELDS`."""
    lines = []
    for cell in cells:
        summary = cell.summary
        lines.append(_line(cell, cell.row, summary.agent, summary.overall, *_exact_values(summary)))
    floors = {(c.panel, c.protocol, c.episodes, row.opponent): (c, row) for c in cells for row in c.summary.floors}
    lines += [_line(cell, row.opponent, "", row, *[None] * len(EXACT)) for cell, row in floors.values()]
    return [dict(zip(FIELDS, line, strict=True)) for line in lines]


def _line(cell: SuiteCell, name: str, agent: str, row: ScoreRow, *exact: float | None) -> list[object]:
    """Return the fields of one line."""
    objective = cell.summary.objective
    means = [episode.measure(objective).estimate for episode in row.episodes]
    has_all_episodes = not cell.summary.early_stop and bool(means)
    estimates = [
        row.pass_at[-1] if row.pass_at else None,
        means[0] if has_all_episodes else None,
        means[-1] if has_all_episodes else None,
        row.success_gain if objective == "success" else row.gain,
    ]
    spread = [value for e in estimates for value in ((None,) * 3 if e is None else (e.mean, e.low, e.high))]
    where = [cell.panel, cell.protocol, cell.episodes, name, agent]
    return [
        *where,
        *spread[:3],
        objective,
        *spread[3:],
        *exact,
        row.episodes[-1].draws if row.episodes else None,
        row.meta_episodes,
        row.failures,
        *row.reply_problems().values(),
        cell.note if name == cell.row else "",
    ]


def _paper(suite: str, panels: Sequence[tuple[str, str]]) -> Iterator[SuitePart]:
    """Yield the paper's scores on these panels with their standard errors; nothing if the paper has none for them."""
    scores = load_reported_scores()
    shorts, count = dict(panels), scores["meta_episodes"]
    blocks = []
    for table in scores["tables"]:
        indices = [index for index, panel in enumerate(table["panels"]) if panel in shorts]
        if table["suite"] != suite or not indices:
            continue
        cells = {
            method: {
                shorts[table["panels"][index]]: f"{100 * p:.0f} ({100 * sqrt(p * (1 - p) / count):.0f})"
                for index in indices
                for p in [shares[index]]
            }
            for method, shares in table["rows"].items()
        }
        names = [shorts[table["panels"][index]] for index in indices]
        blocks.append(SuiteBlock(f"{table['measure']}, {table['section']}", names, cells, tuple(cells)))
    if blocks:
        title = f"As reported in {scores['source']} (K = {scores['episodes']}), not measured here:"
        note = f"one run of {count} each with Qwen3-4B, percent with the standard error; panels of the same tasks alone"
        yield SuitePart([title, note], blocks, [])
