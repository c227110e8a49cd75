"""Shipped results of `dev/webshop_catalogue`: the choices of goals, and the certificates of the proven catalogues.

A choice is the candidate for a goal, which the command selected with the shop's own search. A file
`chosen/<size>.v<VERSION>` contains four bytes per goal: the candidate's number, and the rank, near misses and
alternatives of `ProductStanding`. The bytes are stored by column and compressed.
"""

from __future__ import annotations

import tomllib
import zlib
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from mage_envs.games.webshop.products import ProductStanding

VERSION = 2
"""Version of the generator. Every change of a word list or a draw must increase it, because it changes the result.
`dev/webshop_catalogue` describes the next steps."""


class Choice(NamedTuple):
    """The selected candidate of a goal, and its place in the search."""

    candidate: int
    standing: ProductStanding | None


UNCHOSEN = Choice(0, None)


def shipped(size: str | int, held_out: bool) -> list[Choice]:
    """Return the choices for the goals of a size's catalogue with seed 0, in order, or an empty list if none exist."""
    content = _content(size, held_out)
    return read(content) if content else []


def edition(size: str | int, held_out: bool) -> str:
    """Return an identifier of a size's choices. It is part of the cache key of the catalogue."""
    content = _content(size, held_out)
    return f"chosen.{zlib.crc32(content):08x}" if content else "first"


def certified(size: str, held_out: bool) -> str:
    """Return the certificate of a size's proven catalogue."""
    certificates = tomllib.loads(files(__package__).joinpath("certificates.toml").read_text("utf-8"))
    known: str = certificates[size][held_out]
    return known


def _content(size: str | int, held_out: bool) -> bytes:
    file = files(__package__).joinpath("chosen", name(size, held_out))
    return file.read_bytes() if file.is_file() else b""


def read(content: bytes) -> list[Choice]:
    """Return the choices in the content of a file."""
    columns = np.frombuffer(zlib.decompress(content), np.uint8).reshape(4, -1)
    return [Choice(taken, ProductStanding(*standing)) for taken, *standing in columns.T.tolist()]


def name(size: str | int, held_out: bool) -> str:
    """Return the name of a size's file."""
    return f"{size}{'-held-out' if held_out else ''}.v{VERSION}"
