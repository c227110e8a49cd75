"""Things that are shared out, as rows of slices: one's own, the other's, and those that nobody has yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mage_envs.drawing.lettering import lettered
from mage_envs.drawing.picture import Block, Colour, Picture, Shape

WIDTH, ROW, EDGE = 480, 86, 24
PAPER: Colour = (58, 44, 52)
LIGHT: Colour = (240, 234, 224)
OWN: Colour = (88, 168, 120)
OTHER: Colour = (222, 140, 70)
OPEN: Colour = (130, 112, 112)
LOST: Colour = (78, 62, 68)


class Shared(NamedTuple):
    """One pie: slices of oneself, of the other, whether that is settled, and what is written above."""

    mine: int
    others: int
    settled: bool
    label: str


def pies(size: int, rows: Sequence[Shared], caption: str) -> Picture:
    """Rows of `size` slices each, from the first pie on, and a line of text below."""
    shapes: list[Shape] = []
    step = (WIDTH - 2 * EDGE) / size
    for row, shared in enumerate(rows):
        top = 14 + row * ROW
        shapes += lettered(shared.label, WIDTH / 2, top + 12, 11, LIGHT)
        for slice_ in range(size):
            opacity = 1.0 if shared.settled else 0.6
            colour = OWN if slice_ < shared.mine else OTHER if slice_ < shared.mine + shared.others else OPEN
            if shared.settled and colour is OPEN:
                colour = LOST
            left = EDGE + slice_ * step
            shapes.append(
                Block(left + 1, top + 28, step - 2, 42, colour=colour, corner=min(8, step / 3), opacity=opacity)
            )
    height = 14 + len(rows) * ROW + 44
    shapes += lettered(caption, WIDTH / 2, height - 24, 12, LIGHT)
    return Picture(WIDTH, height, PAPER, tuple(shapes))
