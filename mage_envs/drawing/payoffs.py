"""A game with two choices per player as a table of payoffs, with the last round and the history."""

from __future__ import annotations

from collections.abc import Sequence

from mage_envs.drawing.picture import Block, Colour, Picture, Shape, Text

CELL_WIDTH, CELL_HEIGHT, GAP, LEFT, TOP = 150, 96, 8, 130, 92
WIDTH, HEIGHT = LEFT + 2 * CELL_WIDTH + GAP + 20, TOP + 2 * CELL_HEIGHT + GAP + 128
PAPER: Colour = (46, 52, 70)
CELL: Colour = (244, 241, 233)
CELL_LAST: Colour = (255, 228, 150)
INK: Colour = (40, 44, 58)
LIGHT: Colour = (232, 234, 242)
OWN: Colour = (32, 110, 150)
OTHER: Colour = (190, 74, 66)


def table(
    choices: Sequence[str],
    points: Sequence[Sequence[tuple[float, float]]],
    last_cell: tuple[int, int] | None,
    history: Sequence[tuple[str, str]],
    caption: str,
) -> Picture:
    """Draw a table of payoffs.

    Args:
        choices: Names of the two choices.
        points: Own points and the other player's points, as `points[own][other]`.
        last_cell: Cell of the last round, or None before the first.
        history: First letters of both choices in each round, the own one first.
        caption: Text below the table.

    Returns:
        The picture.
    """
    shapes: list[Shape] = [Text("The other player", LEFT + CELL_WIDTH + GAP / 2, 24, 13, colour=OTHER)]
    shapes.append(Text("You", LEFT / 2, 24, 13, colour=OWN))
    for column, choice in enumerate(choices):
        shapes.append(Text(choice, _column_x(column) + CELL_WIDTH / 2, 60, 12, colour=LIGHT))
    for row, choice in enumerate(choices):
        top = TOP + row * (CELL_HEIGHT + GAP)
        shapes.append(Text(choice, LEFT / 2, top + CELL_HEIGHT / 2, 12, colour=LIGHT))
        for column, (mine, theirs) in enumerate(points[row]):
            colour = CELL_LAST if last_cell == (row, column) else CELL
            shapes.append(Block(_column_x(column), top, CELL_WIDTH, CELL_HEIGHT, colour=colour, corner=12))
            shapes.append(Text(f"{mine:g}", _column_x(column) + 45, top + CELL_HEIGHT / 2, 30, colour=OWN))
            shapes.append(Text(f"{theirs:g}", _column_x(column) + 105, top + CELL_HEIGHT / 2, 30, colour=OTHER))
    # More than the last 12 rounds would not fit beside each other.
    for number, (own_letter, other_letter) in enumerate(history[-12:]):
        shapes.append(Text(own_letter.upper(), 40 + 34 * number, HEIGHT - 96, 14, colour=CELL))
        shapes.append(Text(other_letter.upper(), 40 + 34 * number, HEIGHT - 70, 14, colour=CELL_LAST))
    shapes.append(Text(caption, WIDTH / 2, HEIGHT - 28, 13, colour=LIGHT))
    return Picture(WIDTH, HEIGHT, PAPER, tuple(shapes))


def _column_x(column: int) -> int:
    return LEFT + column * (CELL_WIDTH + GAP)
