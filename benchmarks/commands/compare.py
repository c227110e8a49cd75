"""`mage compare`: runs or suites paired by task, or a leaderboard of them."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from mage_envs.benchmarks.comparison.paired_runs import blocks, compare, tsv
from mage_envs.benchmarks.evaluation.run.options import FormatOption
from mage_envs.benchmarks.scale.suite_comparison import compare_suites, is_adapt_suite
from mage_envs.cli.commands import JsonOption, output_option, print_json
from mage_envs.cli.tables import print_report

SAMPLE = 32
"""Default number of meta-episodes of a run that are executed again for a leaderboard."""


def command(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN", help="Folders of runs or suites; the first is compared with each other one"),
    ],
    wide: Annotated[
        bool, typer.Option(help="Show every episode (default: 1, 2, 3, 5 and the last if there are more than 5)")
    ] = False,
    page: Annotated[
        Path | None,
        output_option(
            "FILE",
            "Write a leaderboard of valid runs instead: a page of all settings and suites as .html, or the table "
            "of one setting as .md, .csv or .json",
        ),
    ] = None,
    attested: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="With --page: your statements of mage verify --challenge")
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help=f"With --page: meta-episodes to replay per run (default: {SAMPLE})"),
    ] = None,
    table_format: FormatOption = "text",
    as_json: JsonOption = False,
) -> None:
    """Compare runs or suites task by task, or write a leaderboard of them.

    Only agents and their memory, context and style may differ.

    Example: mage compare runs/t1/kuhn-k10-paper/reflexion runs/t1/kuhn-k10-paper/react
    """
    if page is not None:
        if wide or table_format != "text" or as_json:
            raise ValueError("--wide, --format and --json print a comparison. Remove them, or --page.")
        # Imported here, because comparisons replay nothing.
        from mage_envs.benchmarks.comparison.leaderboard import write_page

        sys.stdout.write(write_page(page, list(map(str, runs)), sample or SAMPLE, attested))
        return
    if attested is not None or sample is not None:
        raise ValueError("--attested and --sample apply to a leaderboard. Add --page FILE.")
    if len(runs) < 2:
        raise ValueError("mage compare requires two runs or more: mage compare runs/a runs/b.")
    if any(map(is_adapt_suite, runs)):
        if not all(map(is_adapt_suite, runs)):
            raise ValueError("mage compare compares runs with runs, or suites of mage adapt with suites.")
        suites = [compare_suites(runs[0], other_run) for other_run in runs[1:]]
        if as_json:
            print_json([suite.to_json() for suite in suites])
        else:
            for number, suite in enumerate(suites):
                print_report([*([""] if number else []), *suite.blocks()])
        return
    comparisons = compare(runs, wide)
    if as_json:
        print_json([asdict(comparison) for comparison in comparisons])
    elif table_format == "tsv":
        sys.stdout.write(tsv(comparisons))
    else:
        print_report(blocks(comparisons))
