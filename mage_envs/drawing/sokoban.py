"""Sokoban's board as a picture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from mage_envs.drawing.picture import Block, Colour, Disc, Picture, Shape, Stroke

CELL = 64
NIGHT: Colour = (44, 49, 66)
WALL: Colour = (92, 104, 131)
WALL_LIGHT: Colour = (116, 129, 158)
FLOOR: tuple[Colour, Colour] = ((240, 233, 219), (234, 226, 210))
"""Colours of the chequered floor."""
SHADE: Colour = (35, 32, 40)
TARGET: Colour = (222, 98, 88)
CRATE: tuple[Colour, Colour, Colour] = ((133, 84, 40), (201, 143, 78), (222, 170, 106))
"""Colours of a box: frame, boards, light edge."""
PLACED: tuple[Colour, Colour, Colour] = ((52, 108, 70), (98, 170, 108), (134, 197, 138))
SKIN: Colour = (62, 117, 196)
SKIN_LIGHT: Colour = (104, 157, 226)
WHITE: Colour = (255, 255, 255)


class Ground(Protocol):
    """The fixed part of a level. Cell (row, column) is bit `row * width + column` of a mask."""

    @property
    def width(self) -> int: ...
    @property
    def height(self) -> int: ...
    @property
    def floor(self) -> int: ...
    @property
    def targets(self) -> int: ...


def board(level: Ground, boxes: int, player: int) -> Picture:
    """Draw a level.

    Returns:
        The picture.
    """
    shapes: list[Shape] = []
    # Walls, boxes and the player are drawn last, on top of all floor cells and their shadows.
    things: list[Shape] = []
    for row in range(level.height):
        for column in range(level.width):
            cell, x, y = 1 << row * level.width + column, column * CELL, row * CELL
            if not cell & level.floor:
                if _beside_floor(level, row, column):
                    things += _wall(x, y)
                continue
            shapes.append(Block(x, y, CELL, CELL, colour=FLOOR[(row + column) % 2]))
            # The cell above is a wall, which casts a shadow.
            if not cell >> level.width & level.floor:
                shapes.append(Block(x, y, CELL, 9, colour=SHADE, opacity=0.16, blur=6))
            if cell & level.targets:
                shapes += _target(x, y, is_occupied=bool(cell & player))
            if cell & boxes:
                things += _box(x, y, placed=bool(cell & level.targets))
            if cell & player:
                things += _player(x, y)
    return Picture(level.width * CELL, level.height * CELL, NIGHT, (*shapes, *things))


def _beside_floor(level: Ground, row: int, column: int) -> bool:
    rows = range(max(row - 1, 0), min(row + 2, level.height))
    columns = range(max(column - 1, 0), min(column + 2, level.width))
    return any(level.floor >> r * level.width + c & 1 for r in rows for c in columns)


def _wall(x: float, y: float) -> Iterator[Shape]:
    yield Block(x + 1, y + 1, CELL - 2, CELL - 2, colour=WALL, corner=9)
    yield Block(x + 4, y + 4, CELL - 8, CELL - 15, colour=WALL_LIGHT, corner=7, opacity=0.55)


def _target(x: float, y: float, is_occupied: bool) -> Iterator[Shape]:
    """Yield a ring with a dot. If the player is on the target, the ring is wider, or it would be hidden."""
    middle = (x + CELL / 2, y + CELL / 2)
    outer = 29 if is_occupied else 17
    yield Disc(*middle, outer, TARGET)
    yield Disc(*middle, outer - 5, FLOOR[0])
    yield Disc(*middle, 6, TARGET)


def _box(x: float, y: float, placed: bool) -> Iterator[Shape]:
    frame, boards, light = PLACED if placed else CRATE
    yield Block(x + 8, y + 12, CELL - 16, CELL - 16, colour=SHADE, corner=9, opacity=0.3, blur=8)
    yield Block(x + 7, y + 7, CELL - 14, CELL - 14, colour=frame, corner=8)
    yield Block(x + 9.5, y + 9.5, CELL - 19, CELL - 19, colour=light, corner=6)
    yield Block(x + 9.5, y + 11, CELL - 19, CELL - 20.5, colour=boards, corner=6)
    yield Block(x + 16, y + 16, CELL - 32, CELL - 32, colour=frame, corner=3)
    yield Block(x + 18, y + 18, CELL - 36, CELL - 36, colour=light, corner=2, opacity=0.8)
    if placed:
        tick = ((x + 23.5, y + 32.5), (x + 29.5, y + 38.5), (x + 41, y + 26))
        yield Stroke(tick, 6.5, WHITE)
    else:
        yield Stroke(((x + 20, y + 20), (x + CELL - 20, y + CELL - 20)), 7, frame)
        yield Stroke(((x + 20, y + 20), (x + CELL - 20, y + CELL - 20)), 4, boards)


def _player(x: float, y: float) -> Iterator[Shape]:
    middle, eyes = x + CELL / 2, y + CELL / 2 - 4
    yield Disc(middle, y + CELL / 2 + 5, 20, SHADE, opacity=0.32, blur=8)
    yield Disc(middle, y + CELL / 2, 21, SKIN)
    yield Disc(middle - 4, y + CELL / 2 - 6, 14, SKIN_LIGHT, opacity=0.55, blur=14)
    for side in (-7, 7):
        yield Disc(middle + side, eyes, 5.5, WHITE)
        yield Disc(middle + side * 1.08, eyes + 0.6, 2.6, NIGHT)
    mouth = y + CELL / 2 + 8.5
    smile = tuple((middle + across, mouth - across * across / 16) for across in (-7, -4.5, -2, 0, 2, 4.5, 7))
    yield Stroke(smile, 3, WHITE)
