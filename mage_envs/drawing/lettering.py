"""Letters as strokes: capitals, digits and some signs, in any size."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from mage_envs.drawing.picture import Colour, Point, Stroke

HEIGHT = 6
"""Height of a capital, in the units of the glyphs."""
GAP, BLANK = 1.7, 2.4
"""Gap between two letters, and width of a blank, in these units."""
_GLYPHS = {
    "A": "06-20-46 14-34",
    "B": "00-06 ~00-40-43-03 ~03-43-46-06",
    "C": "~41-40-00-06-46-45",
    "D": "00-06 ~00-40-46-06",
    "E": "40-00-06-46 03-33",
    "F": "40-00-06 03-33",
    "G": "~41-40-00-06-46-43 43-23",
    "H": "00-06 40-46 03-43",
    "I": "20-26",
    "J": "~40-46-06-04",
    "K": "00-06 40-04 22-46",
    "L": "00-06-46",
    "M": "06-00-24-40-46",
    "N": "06-00-46-40",
    "O": "@00-40-46-06",
    "P": "06-00 ~00-40-43-03",
    "Q": "@00-40-46-06 24-46",
    "R": "06-00 ~00-40-43-03 23-46",
    "S": "~41-40-00-03-43-46-06-05",
    "T": "00-40 20-26",
    "U": "~00-06-46-40",
    "V": "00-26-40",
    "W": "00-16-22-36-40",
    "X": "00-46 40-06",
    "Y": "00-23-40 23-26",
    "Z": "00-40-06-46",
    "0": "@00-30-36-06",
    "1": "02-20-26",
    "2": "~01-00-40-42-06 06-46",
    "3": "~01-00-40-43-13 ~13-43-46-06-05",
    "4": "36-30-04-44",
    "5": "40-00-02 ~02-42-46-06-05",
    "6": "@03-43-46-06 ~40-00-05",
    "7": "00-40-16",
    "8": "@10-30-33-13 @03-43-46-06",
    "9": "@00-40-43-03 ~41-46-06",
    "+": "03-43 21-25",
    "-": "13-33",
    ".": "26-26",
    ",": "26-17",
    ":": "22-22 25-25",
    "'": "20-22",
    "?": "~01-00-40-43-23-24 26-26",
    "!": "20-24 26-26",
    "(": "~30-10-16-36",
    ")": "~10-30-36-16",
    "/": "40-06",
}
"""Lines through points (column 0 to 4, row 0 to 6, downwards): straight, `~` rounded, `@` rounded and closed."""


def lettered(text: str, x: float, y: float, height: float, colour: Colour, weight: float = 0.16) -> Iterator[Stroke]:
    """Yield the strokes of a text in capitals.

    Args:
        text: Text of known glyphs and blanks.
        x: Horizontal position of its centre in pixels.
        y: Vertical position of its centre in pixels.
        height: Height of a capital in pixels.
        colour: Colour of the strokes.
        weight: Width of a stroke as a share of `height`.

    Raises:
        ValueError: If a character has no glyph.
    """
    scale = height / HEIGHT
    at = x - scale * _width(text) / 2
    for character in text.upper():
        lines, width = _glyph(character)
        for line in lines:
            points = tuple((at + scale * across, y + scale * (down - HEIGHT / 2)) for across, down in line)
            yield Stroke(points, weight * height, colour)
        at += scale * (width + GAP)


def _width(text: str) -> float:
    return sum(_glyph(character)[1] for character in text.upper()) + GAP * (len(text) - 1)


@cache
def _glyph(character: str) -> tuple[tuple[tuple[Point, ...], ...], float]:
    """Return the lines of a character, moved to the left edge, and its width."""
    # The gap that follows every character is part of a blank's width.
    if character == " ":
        return (), BLANK - GAP
    if character not in _GLYPHS:
        raise ValueError(f"There is no glyph for {character!r}; draw texts of {''.join(_GLYPHS)} and blanks.")
    lines = [_line(code) for code in _GLYPHS[character].split()]
    columns = [across for line in lines for across, _ in line]
    left = min(columns)
    return tuple(tuple((x - left, y) for x, y in line) for line in lines), max(columns) - left


def _line(code: str) -> tuple[Point, ...]:
    points = [(float(pair[0]), float(pair[1])) for pair in code.lstrip("~@").split("-")]
    # Three rounds make a curve that looks round at every size that the pictures use.
    for _ in range(3 if code[0] in "~@" else 0):
        points = _cut_corners(points, closed=code[0] == "@")
    return (*points, points[0]) if code[0] == "@" else tuple(points)


def _cut_corners(points: list[Point], closed: bool) -> list[Point]:
    """Return the points after one round of Chaikin's corner cutting, which keeps the ends of an open line."""
    cut: list[Point] = []
    for (x0, y0), (x1, y1) in zip(points, points[1:] + points[:1] if closed else points[1:]):
        cut += [(0.75 * x0 + 0.25 * x1, 0.75 * y0 + 0.25 * y1), (0.25 * x0 + 0.75 * x1, 0.25 * y0 + 0.75 * y1)]
    return cut if closed else [points[0], *cut, points[-1]]
