"""Tic-Tac-Toe's board as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mage_envs.drawing.picture import Block, Colour, Disc, Picture, Shape, Stroke, Text

CELL, GAP, EDGE, CAPTION = 112, 8, 20, 44
PAPER: Colour = (52, 58, 76)
TILE: Colour = (246, 243, 236)
TILE_WON: Colour = (255, 232, 163)
SHADE: Colour = (24, 27, 38)
INK: Colour = (232, 234, 242)
MARKS: dict[str, Colour] = {"X": (217, 84, 77), "O": (44, 127, 158)}
SIZE = 2 * EDGE + 3 * CELL + 2 * GAP


def board(cells: str, line: Sequence[int], caption: str) -> Picture:
    """Draw a board.

    Args:
        cells: Nine characters `.`, `X` or `O`, row by row.
        line: Indices of the winning line's cells, empty if there is none.
        caption: Text below the board.

    Returns:
        The picture.
    """
    shapes: list[Shape] = []
    for index, mark in enumerate(cells):
        left, top = _corner(index)
        tile = TILE_WON if index in line else TILE
        shapes.append(Block(left, top + 4, CELL, CELL, colour=SHADE, corner=14, opacity=0.5, blur=6))
        shapes.append(Block(left, top, CELL, CELL, colour=tile, corner=14))
        if mark == "X":
            shapes += _cross(left, top)
        elif mark == "O":
            # A ring is a disc with a smaller disc in the colour of the tile on top.
            shapes += (Disc(left + CELL / 2, top + CELL / 2, 35, MARKS["O"]),)
            shapes += (Disc(left + CELL / 2, top + CELL / 2, 20, tile),)
    if line:
        shapes.append(_through(line))
    shapes.append(Text(caption, SIZE / 2, SIZE + CAPTION / 2 - 10, 14, colour=INK))
    return Picture(SIZE, SIZE + CAPTION, PAPER, tuple(shapes))


def _corner(index: int) -> tuple[int, int]:
    return EDGE + index % 3 * (CELL + GAP), EDGE + index // 3 * (CELL + GAP)


def _cross(left: float, top: float) -> Iterator[Shape]:
    low, high = 29, CELL - 29
    yield Stroke(((left + low, top + low), (left + high, top + high)), 16, MARKS["X"])
    yield Stroke(((left + high, top + low), (left + low, top + high)), 16, MARKS["X"])


def _through(line: Sequence[int]) -> Stroke:
    """Return a stroke through the middles of a line's cells and a little beyond."""
    (x0, y0), (x1, y1) = _corner(line[0]), _corner(line[-1])
    half, overhang = CELL / 2, 0.13
    start = (x0 + half - overhang * (x1 - x0), y0 + half - overhang * (y1 - y0))
    end = (x1 + half + overhang * (x1 - x0), y1 + half + overhang * (y1 - y0))
    return Stroke((start, end), 8, SHADE, opacity=0.6)
