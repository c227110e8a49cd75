"""`mage train`: one training, or those of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, cast

import typer

from mage_envs.benchmarks.executors.naming import ExecutorOption
from mage_envs.cli.commands import JsonOption, add_command, output_option
from mage_envs.files.atomic import output_path
from mage_envs.trainer.cli import train as training
from mage_envs.trainer.cli.help import build_app

SWEEP = "--sweep"


def sweep_trainings(
    file: Annotated[Path, typer.Option(SWEEP, metavar="FILE", help="YAML file of the trainings")],
    seeds: Annotated[int, typer.Option(metavar="N", help="Number of seeds per setting (default: 3)")] = 3,
    output_dir: Annotated[
        Path | None, output_option("FOLDER", "Folder of the runs (default: runs/NAME for NAME.yaml)")
    ] = None,
    executor: ExecutorOption = "local",
    as_json: JsonOption = False,
) -> None:
    """Train presets with overrides and several seeds, and print one table.

    The same command resumes an interrupted sweep.

    Example: mage train --sweep plan.yaml --seeds 3
    """
    # Imported here, because one training needs none of it.
    from mage_envs.benchmarks.sweeps.plan import read_plan
    from mage_envs.benchmarks.sweeps.sweep import sweep

    sweep(file.stem, read_plan(file, seeds), output_dir or output_path(f"runs/{file.stem}"), executor, as_json)


def _run(arguments: Sequence[str]) -> int:
    """Train, and return the exit status."""
    if not any(word.partition("=")[0] == SWEEP for word in arguments):
        return training.main(arguments)
    sweeps = typer.Typer(add_completion=False)
    add_command(sweeps, "train", sweep_trainings)
    status = typer.main.get_command(sweeps).main(list(arguments), prog_name="mage train", standalone_mode=False)
    return cast(int, status or 0)


app = build_app({}, run=_run)
