"""`mage report`: writes runs as one HTML file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from mage_envs.benchmarks.report.bubbles import draw
from mage_envs.benchmarks.report.document import MOST_MB, REPORT, Heading, templates, write_report
from mage_envs.benchmarks.report.runs import has_runs, read_runs
from mage_envs.benchmarks.report.trained import read_trained, training_folders
from mage_envs.benchmarks.scale.judged_play import JudgedAgent, describe_agents, judge_folder
from mage_envs.cli.commands import output_option
from mage_envs.files.atomic import output_path
from mage_envs.text.visible import one_line


def command(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN", help="Folders of evaluations or trainings, or folders that contain some"),
    ],
    out: Annotated[Path | None, output_option("FILE", f"File of the report (default: {REPORT})")] = None,
    max_mb: Annotated[
        float,
        typer.Option(
            metavar="N",
            help=f"Maximum size of the file in 10^6 bytes; if it is exceeded, transcripts are left out, evenly spread "
            f"(default: {MOST_MB:g})",
        ),
    ] = MOST_MB,
    sample: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="Replay N meta-episodes of each run, and report if they are as recorded (default: 0)",
        ),
    ] = 0,
    bubbles: Annotated[
        Path | None, output_option("PNG", "Also draw the states and actions as a PNG file (requires matplotlib)")
    ] = None,
) -> None:
    """Write one HTML file of runs: scores, adaptation curves, every transcript.

    Example: mage report runs/a runs/b --out report.html
    """
    if not max_mb > 0:
        raise ValueError(f"--max-mb must be above 0, got {max_mb:g}.")
    # A missing package is reported before the runs are read.
    templates()
    paths = [Path(name) for name in runs]
    # A path with trainings only is not passed to read_runs, which raises if it finds no run.
    read = read_runs([path for path in paths if not training_folders(path) or has_runs(path)], sample)
    trained = read_trained(paths, len(read))
    path = out or output_path(REPORT)
    judged_agents: list[JudgedAgent] = []
    for run in read:
        try:
            judged_agents += filter(None, [judge_folder(run.folder)])
        except ValueError as error:
            # A run of another version cannot be executed again, but its transcripts can be read.
            sys.stderr.write(f"mage: no level: {one_line(str(error))}\n")
    blocks = write_report(path, read, max_mb, trained, Heading(*describe_agents(judged_agents)))
    embedded = sum(map(len, blocks.places))
    count = len(read) + len(trained)
    sys.stderr.write(
        f"wrote {path}: {count} run{'s' * (count != 1)}, {embedded:,} transcripts, {path.stat().st_size / 1e6:.1f} MB\n"
    )
    if blocks.left_out:
        sys.stderr.write(f"{blocks.left_out:,} transcripts are left out for --max-mb {max_mb:g}\n")
    if bubbles is not None:
        draw(bubbles, read)
        sys.stderr.write(f"wrote {bubbles}\n")
