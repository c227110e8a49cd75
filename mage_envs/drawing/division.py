"""Shares of two players as rows of slices: own ones, the other player's, and open ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mage_envs.drawing.picture import Block, Colour, Picture, Shape, Text

WIDTH, ROW, EDGE = 480, 86, 24
PAPER: Colour = (58, 44, 52)
LIGHT: Colour = (240, 234, 224)
OWN: Colour = (88, 168, 120)
OTHER: Colour = (222, 140, 70)
OPEN: Colour = (130, 112, 112)
LOST: Colour = (78, 62, 68)


class Shared(NamedTuple):
    """One pie with its shares."""

    mine: int
    """Number of own slices."""
    others: int
    """Number of the other player's slices."""
    settled: bool
    """True if the shares are final."""
    label: str
    """Text above the pie."""


def pies(size: int, rows: Sequence[Shared], caption: str) -> Picture:
    """Draw pies as rows of slices.

    Args:
        size: Number of slices of each pie.
        rows: Shares of the pies, from the first pie on.
        caption: Text below the pies.

    Returns:
        The picture.
    """
    shapes: list[Shape] = []
    step = (WIDTH - 2 * EDGE) / size
    for row, shared in enumerate(rows):
        top = 14 + row * ROW
        shapes.append(Text(shared.label, WIDTH / 2, top + 12, 11, colour=LIGHT))
        for slice_ in range(size):
            opacity = 1.0 if shared.settled else 0.6
            # A slice that nobody owns is lost once the shares are final.
            if slice_ < shared.mine:
                colour = OWN
            elif slice_ < shared.mine + shared.others:
                colour = OTHER
            else:
                colour = LOST if shared.settled else OPEN
            left = EDGE + slice_ * step
            shapes.append(
                Block(left + 1, top + 28, step - 2, 42, colour=colour, corner=min(8, step / 3), opacity=opacity)
            )
    height = 14 + len(rows) * ROW + 44
    shapes.append(Text(caption, WIDTH / 2, height - 24, 12, colour=LIGHT))
    return Picture(WIDTH, height, PAPER, tuple(shapes))
