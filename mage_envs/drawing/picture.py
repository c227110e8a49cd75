"""A picture as a tuple of shapes, and `paint`, which turns it into an image with NumPy alone.

Every shape returns the distance of a point to its edge (negative inside). A pixel's share of the colour follows from
that distance, so that all edges are smooth. Units are pixels, from the top left corner.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Colour = tuple[int, int, int]
"""Red, green and blue, each from 0 to 255."""
Point = tuple[float, float]
Pixels = NDArray[np.float64]


class Disc(NamedTuple):
    """A filled circle."""

    x: float
    y: float
    radius: float
    colour: Colour
    opacity: float = 1.0
    blur: float = 1.0
    """Width of the fading edge in pixels."""

    def bounds(self) -> tuple[float, float, float, float]:
        """Return the left, top, right and bottom bounds in pixels, without the fading edge."""
        return self.x - self.radius, self.y - self.radius, self.x + self.radius, self.y + self.radius

    def distance(self, x: Pixels, y: Pixels) -> Pixels:
        """Return the distances of points to the edge in pixels, negative inside."""
        return _length(x - self.x, y - self.y) - self.radius


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
    blur: float = 1.0

    def bounds(self) -> tuple[float, float, float, float]:
        """Return the left, top, right and bottom bounds in pixels, without the fading edge."""
        return self.left, self.top, self.left + self.width, self.top + self.height

    def distance(self, x: Pixels, y: Pixels) -> Pixels:
        """Return the distances of points to the edge in pixels, negative inside."""
        # The usual distance to a rounded box: to a box that is smaller by the radius, minus the radius.
        across = np.abs(x - (self.left + self.width / 2)) - (self.width / 2 - self.corner)
        down = np.abs(y - (self.top + self.height / 2)) - (self.height / 2 - self.corner)
        inside = np.minimum(np.maximum(across, down), 0.0)
        return _length(np.maximum(across, 0.0), np.maximum(down, 0.0)) + inside - self.corner


class Stroke(NamedTuple):
    """A line through points, with round ends."""

    points: tuple[Point, ...]
    """Points of the line, at least two."""
    width: float
    colour: Colour
    opacity: float = 1.0
    blur: float = 1.0

    def bounds(self) -> tuple[float, float, float, float]:
        """Return the left, top, right and bottom bounds in pixels, without the fading edge."""
        across, down = zip(*self.points)
        half = self.width / 2
        return min(across) - half, min(down) - half, max(across) + half, max(down) + half

    def distance(self, x: Pixels, y: Pixels) -> Pixels:
        """Return the distances of points to the edge in pixels, negative inside."""
        nearest = np.full(np.broadcast_shapes(x.shape, y.shape), np.inf)
        for (x0, y0), (x1, y1) in zip(self.points, self.points[1:]):
            across, down = x1 - x0, y1 - y0
            squared = across * across + down * down
            # Two equal points have no direction. Then the stroke is a dot.
            along = np.clip(((x - x0) * across + (y - y0) * down) / squared, 0, 1) if squared else 0.0
            np.minimum(nearest, _length(x - x0 - along * across, y - y0 - along * down), out=nearest)
        return nearest - self.width / 2


Shape = Disc | Block | Stroke


class Picture(NamedTuple):
    """The picture of a game: shapes over a background, later ones on top."""

    width: int
    height: int
    background: Colour
    shapes: tuple[Shape, ...]


def paint(picture: Picture) -> NDArray[np.uint8]:
    """Return the image, shape (height, width, 3). Equal pictures give equal bytes."""
    image = np.empty((picture.height, picture.width, 3))
    image[:] = picture.background
    for shape in picture.shapes:
        left, top, right, bottom = shape.bounds()
        x0, x1 = _reach(left, right, shape.blur, picture.width)
        y0, y1 = _reach(top, bottom, shape.blur, picture.height)
        # Only the region of the shape is computed. Distances are measured at the centres of the pixels.
        x: Pixels = np.arange(x0, x1, dtype=np.float64)[None, :] + 0.5
        y: Pixels = np.arange(y0, y1, dtype=np.float64)[:, None] + 0.5
        share = np.clip(0.5 - shape.distance(x, y) / shape.blur, 0.0, 1.0) * shape.opacity
        region = image[y0:y1, x0:x1]
        region += share[:, :, None] * (np.array(shape.colour, np.float64) - region)
    return np.rint(image).astype(np.uint8)


def _reach(low: float, high: float, blur: float, size: int) -> tuple[int, int]:
    """Return the range of pixels from `low` to `high` with the fading edge, inside the image."""
    start = min(max(int(np.floor(low - blur)), 0), size)
    return start, max(min(int(np.ceil(high + blur)), size), start)


def _length(across: Any, down: Any) -> Pixels:
    length: Pixels = np.sqrt(across * across + down * down)
    return length
