"""Rooms by gym-sokoban's own generator (MIT), for parity of difficulty: its `room_utils`, without importing gym.

`import gym_sokoban` imports gym, which does not work with NumPy 2; so the one file is run on its own. It keeps its
search in module globals and draws from global randomness: each source runs a copy of its own, with the names
`random` and `np` replaced, so that a room is a function of the Generator alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, TypeVar

import numpy as np

from mage_envs.games.sokoban.level import Level
from mage_envs.games.sokoban.rooms import TRIES, Room, within

T = TypeVar("T")
WALL, TARGET, BOX, PLAYER = 0, 2, 4, 5
"""Its codes for cells."""


class _Draws:
    """What `room_utils` uses of the module `random`."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def random(self) -> float:
        return float(self._rng.random())

    def randint(self, low: int, high: int) -> int:
        return int(self._rng.integers(low, high + 1))

    def sample(self, population: Sequence[T], count: int) -> list[T]:
        chosen = self._rng.choice(len(population), size=count, replace=False)
        return [population[int(index)] for index in chosen]


def load_room_utils() -> ModuleType:
    """A fresh copy of gym-sokoban's `room_utils`. Raises ImportError with the remedy."""
    package = find_spec("gym_sokoban")
    if package is None or not package.submodule_search_locations:
        raise ImportError(
            'generator="gym-sokoban" needs gym-sokoban. Install it with: pip install "mage-envs[gym-sokoban]"'
        )
    path = Path(package.submodule_search_locations[0]) / "envs" / "room_utils.py"
    spec = spec_from_file_location("mage_envs_room_utils", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded; reinstall gym-sokoban==0.0.6.")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class GymSokobanRooms:
    """Rooms of gym-sokoban, drawn until the shortest solution has one of `lengths`."""

    def __init__(self, size: int, boxes: int, lengths: tuple[int, int]) -> None:
        self.size = size
        self.boxes = boxes
        self.lengths = lengths
        self._room_utils = load_room_utils()

    def __reduce__(self) -> tuple[Any, ...]:
        """A module does not pickle; a copy loads its own."""
        return GymSokobanRooms, (self.size, self.boxes, self.lengths)

    def draw(self, rng: np.random.Generator) -> Room:
        names = self._room_utils.__dict__
        names["random"] = _Draws(rng)
        names["np"] = SimpleNamespace(
            zeros=np.zeros,
            copy=np.copy,
            array=np.array,
            where=np.where,
            sum=np.sum,
            abs=np.abs,
            random=SimpleNamespace(randint=lambda high: int(rng.integers(high))),
        )
        for _ in range(TRIES):
            try:
                structure, state, _ = names["generate_room"](
                    dim=(self.size, self.size), num_steps=int(1.7 * 2 * self.size), num_boxes=self.boxes
                )
            except (RuntimeError, RuntimeWarning):  # its way to say: no room this time
                continue
            room = within(_level(structure, state), self.lengths)
            if room is not None:
                return room
        raise ValueError(
            f"gym-sokoban made no room of size {self.size} with {self.boxes} boxes and a shortest solution of "
            f"{self.lengths[0]} to {self.lengths[1]} moves in {TRIES} tries; choose other bounds."
        )


def _level(structure: np.ndarray, state: np.ndarray) -> Level:
    """The level of its two arrays, shape (rows, columns) both: what never moves, and what is there now."""

    def mask(chosen: np.ndarray) -> int:
        return sum(1 << int(index) for index in np.flatnonzero(chosen))

    height, width = structure.shape
    return Level(
        width=width,
        height=height,
        floor=mask(structure != WALL),
        targets=mask(structure == TARGET),
        boxes=mask(state == BOX),
        player=mask(state == PLAYER),
    )
