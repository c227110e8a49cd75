"""Which candidate each goal of the shipped catalogues is, chosen by `choose` with the shop's own search.

A file `chosen/<size>.v<VERSION>` holds four bytes a goal, compressed, all first bytes first: the candidate's number,
the target's rank for the instruction as the query, near misses and alternatives (see `Standing`).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mage_envs.games.webshop.products import Standing

VERSION = 2
"""Grows with every change of a word list or a draw, because both change what a seed gives."""


class Choice(NamedTuple):
    """The candidate that was taken for a goal, and what the search makes of it."""

    candidate: int
    standing: Standing | None


UNCHOSEN = Choice(0, None)


def shipped(size: str | int, held_out: bool) -> list[Choice]:
    """The choices for the goals of a size's catalogue of seed 0, in their order; empty where none are shipped."""
    file = files(__package__).joinpath("chosen", _name(size, held_out))
    return read(file.read_bytes()) if file.is_file() else []


def read(content: bytes) -> list[Choice]:
    """The choices in a file's content."""
    columns = np.frombuffer(zlib.decompress(content), np.uint8).reshape(4, -1)
    return [Choice(taken, Standing(*standing)) for taken, *standing in columns.T.tolist()]


def write(folder: Path, size: str, held_out: bool, choices: Iterable[Choice]) -> Path:
    """Writes the file of a size into a folder; returns its path."""
    rows = [(choice.candidate, *(choice.standing or ())) for choice in choices]
    path = folder / _name(size, held_out)
    path.write_bytes(zlib.compress(np.minimum(rows, 255).astype(np.uint8).T.tobytes(), 9))
    return path


def _name(size: str | int, held_out: bool) -> str:
    return f"{size}{'-held-out' if held_out else ''}.v{VERSION}"
