"""`mage doctor`: the engines, data and caches that the games find, or the facts that a probe finds about a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from mage_envs.cli.commands import JsonOption, print_json
from mage_envs.cli.findings import CHECKS
from mage_envs.cli.tables import TextTable, print_report

PREFIX = "hf:"


def command(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="hf:MODEL", help="A model's folder or name on the hub, as in hf:runs/smollm2 (default: the games)"
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Report the engines, data and caches that the games find, or what a probe finds about a model.

    Example: mage doctor
    """
    if model is None:
        rows = [finding for check in CHECKS for finding in check()]
    elif model.startswith(PREFIX) and model != PREFIX:
        rows = list(_probe(model.removeprefix(PREFIX)))
    else:
        raise ValueError(f"{model!r} must have the form hf:MODEL, as in hf:runs/smollm2.")
    if as_json:
        print_json([{"part": part.strip(), "finding": finding} for part, finding in rows])
    else:
        print_report([TextTable(["", ""], rows, text=(0, 1))])


def _probe(model: str) -> Iterator[tuple[str, str]]:
    """Load a model, and yield the name and the text of each fact.

    Raises:
        ValueError: If the model cannot chat, end a reply or be loaded.
        ImportError: If a package of the extra `train` is missing.
    """
    try:
        from mage_envs.trainer.backends.probe import probe_model
        from mage_envs.trainer.runs.quiet import quieten
    except ModuleNotFoundError as error:
        raise ImportError(
            f'mage doctor {PREFIX}MODEL requires {error.name}. Install it with: pip install "mage-envs[train]"'
        ) from error
    quieten()
    yield from probe_model(model)
