"""`mage-bench report`: writes runs as one HTML file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.report.bubbles import draw
from benchmarks.report.document import MOST_MB, REPORT, write_report
from benchmarks.report.runs import has_runs, read_runs
from benchmarks.report.trained import read_trained, trained_folders
from mage_envs.files.atomic import output_path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `mage-bench report` to its parser."""
    parser.add_argument(
        "runs", metavar="RUN", nargs="+", help="folders of evaluations or trainings, or folders that contain some"
    )
    parser.add_argument(
        "--out", type=output_path, metavar="FILE", default=REPORT, help=f"file of the report (default: {REPORT})"
    )
    parser.add_argument(
        "--max-mb",
        type=float,
        default=MOST_MB,
        metavar="N",
        help=f"maximum size of the file in 10^6 bytes; if it is exceeded, transcripts are left out, evenly spread "
        f"(default: {MOST_MB:g})",
    )
    parser.add_argument(
        "--sample",
        type=int,
        default=0,
        metavar="N",
        help="replay N meta-episodes of each run, and report if they are as recorded (default: 0)",
    )
    parser.add_argument(
        "--bubbles",
        type=output_path,
        metavar="PNG",
        help="also draw the states and actions as a PNG file (requires matplotlib)",
    )
    parser.epilog = "Example: mage-bench report runs/a runs/b --out report.html"


def run(arguments: argparse.Namespace) -> None:
    """Write the report and print a summary of its content to stderr."""
    if not arguments.max_mb > 0:
        raise ValueError(f"--max-mb must be above 0, got {arguments.max_mb:g}.")
    if arguments.sample < 0:
        raise ValueError(f"--sample must be at least 0, got {arguments.sample}.")
    paths = [Path(name) for name in arguments.runs]
    # A path with trainings only is not passed to read_runs, which raises if it finds no run.
    runs = read_runs([path for path in paths if not trained_folders(path) or has_runs(path)], arguments.sample)
    trained = read_trained(paths, len(runs))
    path: Path = arguments.out
    blocks = write_report(path, runs, arguments.max_mb, trained)
    kept = sum(map(len, blocks.places))
    sys.stderr.write(
        f"wrote {path}: {len(runs) + len(trained)} runs, {kept:,} transcripts, {path.stat().st_size / 1e6:.1f} MB\n"
    )
    if blocks.left_out:
        sys.stderr.write(f"{blocks.left_out:,} transcripts are left out for --max-mb {arguments.max_mb:g}\n")
    if arguments.bubbles is not None:
        draw(arguments.bubbles, runs)
        sys.stderr.write(f"wrote {arguments.bubbles}\n")
