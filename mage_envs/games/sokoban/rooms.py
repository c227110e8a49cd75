"""Random rooms whose shortest solution has exactly a drawn length.

A topology is a random walk that carves small shapes. As in gym-sokoban, it has 1.7 steps per row and column, and turns
with probability 0.35. The targets are drawn among its cells and the length among the allowed ones. The start is uniform
among the positions that need exactly that many moves and have no box on a target.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from typing import NamedTuple

import numpy as np

from mage_envs.games.sokoban.level import Level, cells
from mage_envs.games.sokoban.search import Retrograde

SHAPES = (
    ((1, 0), (1, 1), (1, 2)),
    ((0, 1), (1, 1), (2, 1)),
    ((1, 0), (1, 1), (2, 1)),
    ((1, 0), (1, 1), (2, 0), (2, 1)),
    ((1, 1), (1, 2), (2, 1)),
)
"""Cells that one step of the walk carves: (row, column) in the 3x3 square around it."""
TRIES = 2000
"""Maximum rooms per request before it fails as impossible."""


class Room(NamedTuple):
    """A level to play, with its oracle."""

    level: Level
    search: Retrograde


class RoomSource(ABC):
    """A source of rooms."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> Room:
        """Return a room. It depends only on `rng`."""


class RetrogradeRooms(RoomSource):
    """Square rooms whose shortest solution has a length from a range."""

    def __init__(self, size: int, boxes: int, lengths: tuple[int, int]) -> None:
        """Prepare the generator.

        Args:
            size: Cells per side, walls included.
            boxes: Number of boxes and targets.
            lengths: Minimum and maximum moves of a shortest solution.
        """
        self.size = size
        self.boxes = boxes
        self.lengths = lengths
        self._steps = int(1.7 * 2 * size)
        self._tables = _walk_tables(size)

    def draw(self, rng: np.random.Generator) -> Room:
        low, high = self.lengths
        # The length is drawn before the room. Otherwise short solutions would be more frequent than long ones.
        length = int(rng.integers(low, high + 1))
        for _ in range(TRIES):
            room = self._attempt(rng, length)
            if room is not None:
                return room
        raise ValueError(
            f"No room of size {self.size} with {self.boxes} boxes and a shortest solution of {length} moves was found "
            f"in {TRIES} tries. Choose other bounds."
        )

    def _attempt(self, rng: np.random.Generator, length: int) -> Room | None:
        # One vectorized draw per attempt: one number per step, one per target, two for the start of the walk, and one
        # for the start position.
        draws = rng.random(self._steps + self.boxes + 3).tolist()
        floor = self._carve(draws)
        free = cells(floor)
        # A push needs the boxes, the player and one more free cell.
        if len(free) < self.boxes + 2:
            return None
        targets = 0
        for _ in range(self.boxes):
            targets |= free.pop(int(draws.pop() * len(free)))
        search = Retrograde(floor, targets, self.size)
        starts = [(boxes, players) for boxes, players in search.at(length).items() if not boxes & targets]
        # Uniform over positions, not over placements of the boxes.
        remaining = int(draws.pop() * sum([players.bit_count() for _, players in starts]))
        for boxes, players in starts:
            if remaining < players.bit_count():
                return Room(
                    Level(
                        width=self.size,
                        height=self.size,
                        floor=floor,
                        targets=targets,
                        boxes=boxes,
                        player=cells(players)[remaining],
                    ),
                    search,
                )
            remaining -= players.bit_count()
        return None

    def _carve(self, draws: list[float]) -> int:
        """Return the floor. Use up one uniform draw per step and two for the start, from the end of the list."""
        ahead, carved = self._tables
        walk = ahead[int(draws.pop() * 4)]
        at = int(draws.pop() * len(carved[0]))
        floor = 0
        for _ in range(self._steps):
            choice = int(draws.pop() * _CHOICES)
            way = _WAY_OF[choice]
            if way is not None:
                walk = ahead[way]
            at = walk[at]
            floor |= carved[choice % len(SHAPES)][at]
        return floor


# 4 * 35 of 400 outcomes are turns, which is the probability 0.35. Both 35 and 400 are multiples of 5, so the shape is
# independent of the turn, and one draw decides both.
_CHOICES = 400
_TURNS = 35
_WAY_OF: tuple[int | None, ...] = (*(way for way in range(4) for _ in range(_TURNS)), *[None] * (_CHOICES - 4 * _TURNS))
"""Equally likely outcomes of a step: the new direction, or None for straight on. The index modulo 5 is the shape."""


@cache
def _walk_tables(size: int) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
    """Return the tables (ahead, carved) of the inner cells, in reading order.

    `ahead[direction][cell]` is the next cell of a step, or the cell itself at the border. `carved[shape][cell]` is the
    mask that a shape carves around the cell.
    """
    inner = [(row, column) for row in range(1, size - 1) for column in range(1, size - 1)]
    index_by_cell = {cell: index for index, cell in enumerate(inner)}
    inside = sum(1 << row * size + column for row, column in inner)
    ahead = tuple(
        tuple(index_by_cell.get((row + down, column + right), index_by_cell[row, column]) for row, column in inner)
        for down, right in ((-1, 0), (1, 0), (0, -1), (0, 1))
    )
    carved = tuple(
        tuple(
            inside & sum(1 << (row - 1 + down) * size + column - 1 + right for down, right in shape)
            for row, column in inner
        )
        for shape in SHAPES
    )
    return ahead, carved


def within(level: Level, lengths: tuple[int, int]) -> Room | None:
    """Return the level with its oracle, or None if its shortest solution is outside of the allowed lengths."""
    search = Retrograde(level.floor, level.targets, level.width)
    for length in range(lengths[1] + 1):
        if search.at(length).get(level.boxes, 0) & level.player:
            return Room(level, search) if length >= lengths[0] else None
    return None
