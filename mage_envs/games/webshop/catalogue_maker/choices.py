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

from mage_envs.durable import write_atomically
from mage_envs.games.webshop.products import ProductStanding

VERSION = 2
"""Grows with every change of a word list or a draw, because both change what a seed gives."""


class Choice(NamedTuple):
    """The candidate that was taken for a goal, and what the search makes of it."""

    candidate: int
    standing: ProductStanding | None


UNCHOSEN = Choice(0, None)


def shipped(size: str | int, held_out: bool) -> list[Choice]:
    """The choices for the goals of a size's catalogue of seed 0, in their order; empty where none are shipped."""
    content = _content(size, held_out)
    return read(content) if content else []


def edition(size: str | int, held_out: bool) -> str:
    """Tells the goals of a size's catalogue from those of other choices of the same version."""
    content = _content(size, held_out)
    return f"chosen.{zlib.crc32(content):08x}" if content else "first"


def _content(size: str | int, held_out: bool) -> bytes:
    file = files(__package__).joinpath("chosen", name(size, held_out))
    return file.read_bytes() if file.is_file() else b""


def read(content: bytes) -> list[Choice]:
    """The choices in a file's content."""
    columns = np.frombuffer(zlib.decompress(content), np.uint8).reshape(4, -1)
    return [Choice(taken, ProductStanding(*standing)) for taken, *standing in columns.T.tolist()]


def write(path: Path, choices: Iterable[Choice]) -> None:
    """Writes choices into a file, all or none."""
    rows = [(choice.candidate, *(choice.standing or ())) for choice in choices]
    write_atomically(path, zlib.compress(np.minimum(rows, 255).astype(np.uint8).T.tobytes(), 9))


def name(size: str | int, held_out: bool) -> str:
    """The name of a size's file."""
    return f"{size}{'-held-out' if held_out else ''}.v{VERSION}"
