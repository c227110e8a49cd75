"""`mage sweep`: train presets with overrides and several seeds, and print one table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mage_envs.benchmarks.executors import ExecutorOption
from mage_envs.benchmarks.sweeps.plan import EXAMPLE, read_plan
from mage_envs.benchmarks.sweeps.sweep import SeedsOption, sweep
from mage_envs.cli.commands import JsonOption
from mage_envs.files.atomic import output_path


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help=f"YAML file, such as {EXAMPLE}")],
    seeds: SeedsOption = 3,
    out: Annotated[
        Path | None,
        typer.Option(
            parser=output_path, metavar="FOLDER", help="Folder of the runs (default: runs/NAME for NAME.yaml)"
        ),
    ] = None,
    executor: ExecutorOption = "local",
    as_json: JsonOption = False,
) -> None:
    """Train presets with overrides and several seeds, and print one table.

    The same command resumes an interrupted sweep.

    Example: mage sweep plan.yaml --seeds 3
    """
    folder = out or output_path(f"runs/{file.stem}")
    sweep(file.stem, read_plan(file, seeds), folder, executor, as_json)
