"""Rooms at random, with exactly the wanted length of their shortest solution.

A topology is a random walk that carves small shapes (as gym-sokoban's: 1.7 steps per row and column, a turn with
probability 0.35). Targets are drawn among its cells, a length among the allowed ones, and the start uniformly among
the positions that need exactly so many moves and have no box on a target.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple, Protocol

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
"""What one step of the walk carves: cells of the 3x3 square around it, (row, column)."""
TRIES = 2000
"""Rooms that are tried before a request counts as impossible."""


class Room(NamedTuple):
    """A level to play, with its oracle."""

    level: Level
    search: Retrograde


class RoomSource(Protocol):
    """Where rooms come from."""

    def draw(self, rng: np.random.Generator) -> Room:
        """A room, a function of `rng` alone."""
        ...


class RetrogradeRooms:
    """Square rooms of `size` cells a side, walls included, whose shortest solution has `lengths` moves."""

    def __init__(self, size: int, boxes: int, lengths: tuple[int, int]) -> None:
        self.size = size
        self.boxes = boxes
        self.lengths = lengths
        self._steps = int(1.7 * 2 * size)
        self._tables = _walk_tables(size)

    def draw(self, rng: np.random.Generator) -> Room:
        low, high = self.lengths
        length = int(rng.integers(low, high + 1))
        for _ in range(TRIES):
            room = self._attempt(rng, length)
            if room is not None:
                return room
        raise ValueError(
            f"No room of size {self.size} with {self.boxes} boxes and a shortest solution of {length} moves was found "
            f"in {TRIES} tries; choose other bounds."
        )

    def _attempt(self, rng: np.random.Generator, length: int) -> Room | None:
        draws = rng.random(self._steps + self.boxes + 3).tolist()
        floor = self._carve(draws)
        free = cells(floor)
        if len(free) < self.boxes + 2:
            return None
        targets = 0
        for _ in range(self.boxes):
            targets |= free.pop(int(draws.pop() * len(free)))
        search = Retrograde(floor, targets, self.size)
        starts = [(boxes, players) for boxes, players in search.at(length).items() if not boxes & targets]
        chosen = int(draws.pop() * sum([players.bit_count() for _, players in starts]))
        for boxes, players in starts:
            if chosen < players.bit_count():
                return Room(
                    Level(
                        width=self.size,
                        height=self.size,
                        floor=floor,
                        targets=targets,
                        boxes=boxes,
                        player=cells(players)[chosen],
                    ),
                    search,
                )
            chosen -= players.bit_count()
        return None

    def _carve(self, draws: list[float]) -> int:
        """The floor; takes a uniform draw per step and two more off the end of the list."""
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


_CHOICES = 400
_TURNS = 35
_WAY_OF: tuple[int | None, ...] = (*(way for way in range(4) for _ in range(_TURNS)), *[None] * (_CHOICES - 4 * _TURNS))
"""The equally likely things that a step can do: the way it turns to, None for straight on. Modulo 5: its shape."""


@cache
def _walk_tables(size: int) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
    """For the inner cells in reading order: the cell that a step in each way leads to (itself, at the border), and
    the mask that each shape carves around it."""
    inner = [(row, column) for row in range(1, size - 1) for column in range(1, size - 1)]
    place = {cell: index for index, cell in enumerate(inner)}
    inside = sum(1 << row * size + column for row, column in inner)
    ahead = tuple(
        tuple(place.get((row + down, column + right), place[row, column]) for row, column in inner)
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
    """The level with its oracle, None where its shortest solution is shorter or longer than allowed."""
    search = Retrograde(level.floor, level.targets, level.width)
    for length in range(lengths[1] + 1):
        if search.at(length).get(level.boxes, 0) & level.player:
            return Room(level, search) if length >= lengths[0] else None
    return None
