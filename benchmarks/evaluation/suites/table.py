"""A suite's table: columns by panels, and what the paper reported there, in a block of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt

from benchmarks.evaluation.estimates import Estimate
from benchmarks.evaluation.report import NOT_KNOWN, aligned
from benchmarks.evaluation.scores import Summary
from benchmarks.evaluation.suites.paper import reported

ACROSS = 5
"""Panels beside each other in 80 columns."""


@dataclass(frozen=True)
class SuiteCell:
    """The scores of one column at one setting."""

    panel: str
    """Short name."""
    protocol: str
    episodes: int
    column: str
    summary: Summary


def text_table(
    suite: str, cells: Sequence[SuiteCell], columns: Sequence[str], panels: Sequence[tuple[str, str]]
) -> str:
    """The table of all settings; `panels`: whole and short names, in their order."""
    lines: list[str] = []
    for protocol, episodes in dict.fromkeys((cell.protocol, cell.episodes) for cell in cells):
        here = {(cell.panel, cell.column): cell.summary for cell in cells if _at(cell, protocol, episodes)}
        sizes = sorted({summary.overall.meta_episodes for summary in here.values()})
        played = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
        lines += [f"{suite}: K = {episodes}, protocol {protocol}, {played} meta-episodes a panel"]
        solved = f"Success within {episodes} episodes (pass@{episodes}), 95% intervals, in percent"
        lines += _blocks(solved, here, columns, panels, _solved)
        if not any(summary.early_stop for summary in here.values()):
            last = f"Episode {episodes}: chips and the like per hand, ± half of the interval; else success"
            lines += _blocks(last, here, columns, panels, _last)
        lines.append("")
    return "\n".join([*lines, *_paper(suite, panels)]) + "\n"


def _at(cell: SuiteCell, protocol: str, episodes: int) -> bool:
    return (cell.protocol, cell.episodes) == (protocol, episodes)


def _blocks(
    title: str,
    here: dict[tuple[str, str], Summary],
    columns: Sequence[str],
    panels: Sequence[tuple[str, str]],
    shown: Callable[[Summary], str],
) -> list[str]:
    lines = ["", title]
    for start in range(0, len(panels), ACROSS):
        shorts = [short for _, short in panels[start : start + ACROSS]]
        found = [[here.get((short, column)) for short in shorts] for column in columns]
        cells = [
            [column, *(NOT_KNOWN if one is None else shown(one) for one in row)]
            for column, row in zip(columns, found, strict=True)
        ]
        lines += [*([""] if start else []), *aligned(["", *shorts], cells)]
    return lines


def _solved(summary: Summary) -> str:
    return _percent(summary.overall.pass_at[-1]) if summary.overall.pass_at else NOT_KNOWN


def _last(summary: Summary) -> str:
    if len(summary.overall.episodes) < len(summary.overall.pass_at) or not summary.overall.episodes:
        return NOT_KNOWN
    estimate = summary.overall.episodes[-1].measure(summary.objective).estimate
    if summary.objective == "success":
        return _percent(estimate)
    half = "" if estimate.low is None or estimate.high is None else f"±{(estimate.high - estimate.low) / 2:.2f}"
    return f"{estimate.mean:+.2f}{half}"


def _percent(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return f"{100 * estimate.mean:.0f}"
    return f"{100 * estimate.mean:.0f} [{100 * estimate.low:.0f},{100 * estimate.high:.0f}]"


def _paper(suite: str, panels: Sequence[tuple[str, str]]) -> list[str]:
    """What was reported, with its standard error; nothing for a suite without such figures."""
    told = reported()
    lines: list[str] = []
    for one in told["tables"]:
        if one["suite"] != suite:
            continue
        shorts = dict(panels)
        count = told["meta_episodes"]
        lines += ["" if lines else f"As reported in {told['source']}, not measured here: one run of {count} each,"]
        if len(lines) == 1:
            lines.append("percent with the standard error, with Qwen3-4B")
        lines.append(f"{one['measure']}, {one['section']}")
        cells = [
            [method, *(f"{100 * p:.0f} ({100 * sqrt(p * (1 - p) / count):.0f})" for p in shares)]
            for method, shares in one["rows"].items()
        ]
        lines += aligned(["", *(shorts.get(panel, panel) for panel in one["columns"])], cells)
    return lines
