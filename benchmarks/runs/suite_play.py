"""A suite of the paper or of one's own rows: planned, played, and shown in tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mage_envs.benchmarks.evaluation.run.options import PlayOptions
from mage_envs.benchmarks.evaluation.suites.panels import QUICK
from mage_envs.benchmarks.evaluation.suites.paper import named_suite
from mage_envs.benchmarks.evaluation.suites.rows import SuiteRow, read_rows
from mage_envs.benchmarks.evaluation.suites.suite_table import (
    SuiteCell,
    SuitePart,
    latex_table,
    markdown_table,
    merge_models,
    suite_tables,
    text_blocks,
    tsv,
)
from mage_envs.benchmarks.report.document import REPORT, can_write_reports, write_report
from mage_envs.benchmarks.report.runs import read_runs
from mage_envs.benchmarks.runs.suite_folder import begin, finish, plan_of, play_runs
from mage_envs.benchmarks.suites.planning import PlannedRun, absent_panels, plan_runs, short_names
from mage_envs.cli.tables import as_text
from mage_envs.files.atomic import write_atomically
from mage_envs.files.locking import FolderLock

TableFormat = Literal["text", "markdown", "latex"]


@dataclass(frozen=True, kw_only=True)
class SuitePlan:
    """What a suite plays."""

    suite: str
    quick: bool
    rows: Sequence[SuiteRow]
    runs: Sequence[PlannedRun]


def plan_suite(
    name: str, rows: Path, *, size: int | None, protocol: str | None, episodes: int | None, quick: bool
) -> SuitePlan:
    """Return the plan of a suite. Panels that cannot be played here are named on stderr.

    Args:
        rows: YAML file of the rows.
        size: Meta-episodes per panel (default: those of each panel).
        protocol: The only protocol to play (default: those of the suite).
        episodes: The only number of episodes to play (default: those of the suite).
        quick: True for a trial of few tasks at the suite's first setting.

    Raises:
        ValueError: If the file or a row is wrong, or if nothing can be played.
    """
    suite = named_suite(name)
    shorts = short_names(suite)
    read = read_rows(rows, tuple(shorts.values()))
    if size is not None and not suite.sized:
        raise ValueError(f"The panels of {name} have sizes of their own. Remove --size.")
    runs = plan_runs(
        suite,
        read,
        QUICK if quick else size,
        [protocol] if protocol else suite.protocols[: 1 if quick else None],
        [episodes] if episodes else suite.lengths[: 1 if quick else None],
        quick,
    )
    for panel, reason in absent_panels(suite, quick).items():
        sys.stderr.write(f"{shorts[panel]}: n/a, {reason}\n")
    if not runs:
        raise ValueError(f"{rows}: no row plays any panel of {name}.")
    return SuitePlan(suite=name, quick=quick, rows=read, runs=runs)


@dataclass(frozen=True, kw_only=True)
class PlayedSuite:
    """The results of a suite."""

    cells: Sequence[SuiteCell]
    """Those of each run, then those of each model."""
    tables: Sequence[SuitePart]
    status: int
    """Exit status: the most severe one of an evaluation."""

    def text(self, table_format: TableFormat) -> str:
        """Return the tables in a format."""
        if table_format == "text":
            return as_text(text_blocks(self.tables))
        return markdown_table(self.tables) if table_format == "markdown" else latex_table(self.tables)


def play_suite(plan: SuitePlan, out: Path, options: PlayOptions) -> PlayedSuite:
    """Play the runs that are missing in a folder, and write tables and a report there.

    Raises OtherRun if the folder holds anything else.
    """
    stored = plan_of(plan.suite, plan.quick, plan.rows, plan.runs)
    shorts = short_names(named_suite(plan.suite))
    with FolderLock(out):
        begin(out, stored, options.resume)
        run_cells, statuses = play_runs(plan.runs, out, options)
        finish(out, stored, plan.runs)
        names = list(dict.fromkeys(row.model or row.name for row in plan.rows))
        models = merge_models(run_cells, {row.name: row.model for row in plan.rows if row.model})
        tables = list(suite_tables(plan.suite, models, names, list(shorts.items())))
        # The files with all numbers have the row of each run, then those of the models.
        cells = run_cells + [cell for cell in models if cell not in run_cells]
        write_atomically(out / "table.txt", as_text(text_blocks(tables)))
        write_atomically(out / "table.tsv", tsv(cells))
        summaries = {out / run.folder: cell.summary for run, cell in zip(plan.runs, run_cells, strict=True)}
        if can_write_reports():
            write_report(out / REPORT, read_runs(list(summaries), summaries=summaries))
    return PlayedSuite(cells=cells, tables=tables, status=min((status for status in statuses if status), default=0))
