"""`mage doctor`: the engines, data and caches that the games find, or the facts that a probe finds about a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated

import typer

from mage_envs.cli.commands import JsonOption, print_result
from mage_envs.cli.tables import TextTable
from mage_envs.files.cache import cache_root
from mage_envs.game_record import RECORDS
from mage_envs.loading.extras import requires, version_or
from mage_envs.loading.imports import load_entry


def _packages() -> Iterator[tuple[str, str]]:
    yield "open_spiel", version_or("open_spiel", "missing; it is a core dependency: pip install mage-envs")
    yield "torch", version_or("torch", 'not installed; pip install "mage-envs[train]" brings the trainer')


def _cache() -> Iterator[tuple[str, str]]:
    folder = cache_root()
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    size = sum(path.stat().st_size for path in files) / 2**20
    yield "cache", f"{folder}: {len(files)} files, {size:.1f} MB; it can be deleted at any time"


def _games() -> Iterator[tuple[str, str]]:
    for record in RECORDS.values():
        if record.doctor:
            yield from load_entry(record.doctor)()


CHECKS: tuple[Callable[[], Iterator[tuple[str, str]]], ...] = (_packages, _games, _cache)
"""Checks in the order of the report."""
MODEL = "hf:"


def command(
    subject: Annotated[
        str | None,
        typer.Argument(
            metavar="WHAT",
            help="hf:MODEL, a model's folder or name on the hub, or webshop:DIR, a folder with WebShop's original "
            "files, a converted one, or a built-in size (default: the games)",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Report what the games find on this machine, or the facts of a model or a folder.

    Example: mage doctor
    """
    if subject is None:
        rows = [finding for check in CHECKS for finding in check()]
    elif subject.startswith(MODEL) and subject != MODEL:
        rows = list(_probe(subject.removeprefix(MODEL)))
    else:
        readers = {word: reader for record in RECORDS.values() for word, reader in record.data.items()}
        word, _, folder = subject.partition(":")
        if word not in readers or not folder:
            forms = ", ".join(("hf:MODEL", *(f"{word}:DIR" for word in readers)))
            raise ValueError(f"{subject!r} must have one of the forms {forms}, as in hf:runs/smollm2.")
        rows = list(load_entry(readers[word])(folder))
    print_result(
        [{"part": part.strip(), "finding": finding} for part, finding in rows],
        [TextTable(["", ""], rows, text=(0, 1))],
        as_json,
    )


def _probe(model: str) -> Iterator[tuple[str, str]]:
    """Load a model, and yield the name and the text of each fact.

    Raises:
        ValueError: If the model cannot chat, end a reply or be loaded.
        ImportError: If a package of the extra `train` is missing.
    """
    with requires(f"mage doctor {MODEL}NAME", "train"):
        from mage_envs.trainer.backends.model_folder import quieten
        from mage_envs.trainer.backends.probe import probe_model
    quieten()
    yield from probe_model(model)
