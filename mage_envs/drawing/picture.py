"""A picture as a tuple of shapes, and `paint`, which draws it with pygame-ce.

Units are pixels, from the top left corner.
"""

from __future__ import annotations

import math
import os
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Colour = tuple[int, int, int]
"""Red, green and blue, each from 0 to 255."""
Point = tuple[float, float]
Bounds = tuple[float, float, float, float]
"""Left, top, right and bottom in pixels."""
SCALE = 4
"""Factor by which a shape is drawn larger. Reducing it to its size makes its edges smooth."""
FONT_SIZE = 2.05
"""Size of pygame's own font as a multiple of the height of its capitals."""


class Disc(NamedTuple):
    """A filled circle."""

    x: float
    y: float
    radius: float
    colour: Colour
    opacity: float = 1.0
    blur: float = 0.0
    """Width of the fading edge in pixels."""

    def bounds(self) -> Bounds:
        """Return the bounds without the fading edge."""
        return self.x - self.radius, self.y - self.radius, self.x + self.radius, self.y + self.radius


class Block(NamedTuple):
    """A filled rectangle with round corners."""

    left: float
    top: float
    width: float
    height: float
    colour: Colour
    corner: float = 0.0
    """Radius of the corners in pixels."""
    opacity: float = 1.0
    blur: float = 0.0

    def bounds(self) -> Bounds:
        """Return the bounds without the fading edge."""
        return self.left, self.top, self.left + self.width, self.top + self.height


class Stroke(NamedTuple):
    """A line through points, with round ends."""

    points: tuple[Point, ...]
    """Points of the line, at least two."""
    width: float
    colour: Colour
    opacity: float = 1.0
    blur: float = 0.0

    def bounds(self) -> Bounds:
        """Return the bounds without the fading edge."""
        across, down = zip(*self.points)
        half = self.width / 2
        return min(across) - half, min(down) - half, max(across) + half, max(down) + half


class Text(NamedTuple):
    """A line of text."""

    text: str
    x: float
    """Horizontal position of its centre."""
    y: float
    """Vertical position of the centre of its capitals."""
    height: float
    """Height of a capital in pixels."""
    colour: Colour


Shape = Disc | Block | Stroke | Text


class Picture(NamedTuple):
    """The picture of a game: shapes over a background, later ones on top."""

    width: int
    height: int
    background: Colour
    shapes: tuple[Shape, ...]


def load_pygame() -> Any:
    """Return the module pygame. Raises ImportError with a hint if pygame-ce is not installed."""
    # pygame prints a greeting when it is imported, into the output of whatever command runs.
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    try:
        import pygame
    except ImportError as error:
        raise ImportError('Pictures need pygame-ce. Install it with: pip install "mage-envs[render]"') from error
    # pygame has the same module name, and lacks functions that `paint` uses.
    if not getattr(pygame, "IS_CE", False):
        raise ImportError(
            "Pictures need pygame-ce, but pygame is installed in its place. Replace it with: "
            "pip uninstall -y pygame pygame-ce && pip install pygame-ce"
        )
    return pygame


def paint(picture: Picture) -> NDArray[np.uint8]:
    """Return the image, shape (height, width, 3). Equal pictures give equal bytes, with and without a display."""
    pygame = load_pygame()
    # Only the font module: `pygame.init` would also start a display and sound. Other code may have stopped it.
    pygame.font.init()
    image = pygame.Surface((picture.width, picture.height), depth=24)
    image.fill(picture.background)
    for shape in picture.shapes:
        if isinstance(shape, Text):
            _write(pygame, image, shape)
        else:
            _draw(pygame, image, shape)
    # pygame's arrays have the shape (width, height, 3).
    pixels: NDArray[np.uint8] = pygame.surfarray.array3d(image).swapaxes(0, 1)
    return np.ascontiguousarray(pixels)


def _write(pygame: Any, image: Any, text: Text) -> None:
    font = pygame.font.Font(None, round(FONT_SIZE * text.height))
    written = font.render(text.text, True, text.colour)
    # Without the letters' feet, which would move a text upwards.
    top = text.y + text.height / 2 - font.get_ascent()
    image.blit(written, (round(text.x - written.get_width() / 2), round(top)))


def _draw(pygame: Any, image: Any, shape: Disc | Block | Stroke) -> None:
    """Draw a shape on a layer of its size, which is then reduced, blurred and laid on the image."""
    left, top, right, bottom = shape.bounds()
    x, y = math.floor(left - shape.blur), math.floor(top - shape.blur)
    size = math.ceil(right + shape.blur) - x, math.ceil(bottom + shape.blur) - y
    layer = pygame.Surface((size[0] * SCALE, size[1] * SCALE), pygame.SRCALPHA)
    # Transparent pixels of the same colour, or the edges would mix with black.
    layer.fill((*shape.colour, 0))
    match shape:
        case Disc():
            middle = SCALE * (shape.x - x), SCALE * (shape.y - y)
            pygame.draw.circle(layer, shape.colour, middle, SCALE * shape.radius)
        case Block():
            area = [round(SCALE * side) for side in (left - x, top - y, shape.width, shape.height)]
            pygame.draw.rect(layer, shape.colour, area, border_radius=round(SCALE * shape.corner))
        case Stroke():
            half = SCALE * shape.width / 2
            points = [pygame.Vector2(SCALE * (across - x), SCALE * (down - y)) for across, down in shape.points]
            for start, end in pairwise(points):
                # A polygon, because `pygame.draw.line` draws diagonals too thin. Two equal points make a dot.
                if start != end:
                    side = half * (end - start).normalize().rotate(90)
                    pygame.draw.polygon(layer, shape.colour, (start - side, start + side, end + side, end - side))
            for point in points:
                pygame.draw.circle(layer, shape.colour, point, half)
    layer = pygame.transform.smoothscale(layer, size)
    if shape.blur:
        layer = pygame.transform.box_blur(layer, round(shape.blur / 2))
    layer.set_alpha(round(255 * shape.opacity))
    image.blit(layer, (x, y))
