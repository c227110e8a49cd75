"""Rooms by gym-sokoban's own generator (MIT), for equal difficulty: its `room_utils`, without importing gym.

`import gym_sokoban` imports gym, which does not work with NumPy 2. So only that file is executed. It keeps its search
in module globals and draws from global randomness. Each source therefore runs its own copy with the names `random` and
`np` replaced, and a room depends only on the Generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, TypeVar

import numpy as np

from mage_envs.games.sokoban.level import Level
from mage_envs.games.sokoban.rooms import TRIES, Room, RoomSource, within

T = TypeVar("T")
WALL, TARGET, BOX, PLAYER = 0, 2, 4, 5
"""gym-sokoban's codes for cells."""


class _Draws:
    """The functions of the module `random` that `room_utils` uses."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def random(self) -> float:
        return float(self._rng.random())

    def randint(self, low: int, high: int) -> int:
        return int(self._rng.integers(low, high + 1))

    def sample(self, population: Sequence[T], count: int) -> list[T]:
        indices = self._rng.choice(len(population), size=count, replace=False)
        return [population[int(index)] for index in indices]


def load_room_utils() -> ModuleType:
    """Return a new copy of `room_utils`. Raise ImportError if gym-sokoban is not installed."""
    package = find_spec("gym_sokoban")
    if package is None or not package.submodule_search_locations:
        raise ImportError(
            'generator="gym-sokoban" requires gym-sokoban. Install it with: pip install "mage-envs[gym-sokoban]"'
        )
    path = Path(package.submodule_search_locations[0]) / "envs" / "room_utils.py"
    spec = spec_from_file_location("mage_envs_room_utils", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded; reinstall gym-sokoban==0.0.6.")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class GymSokobanRooms(RoomSource):
    """Rooms of gym-sokoban, drawn until the length of the shortest solution is in a range."""

    def __init__(self, size: int, boxes: int, lengths: tuple[int, int]) -> None:
        """Load the generator.

        Args:
            size: Cells per side, walls included.
            boxes: Number of boxes and targets.
            lengths: Minimum and maximum moves of a shortest solution.
        """
        self.size = size
        self.boxes = boxes
        self.lengths = lengths
        self._room_utils = load_room_utils()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the options only. A module cannot be pickled, so the copy loads its own."""
        return GymSokobanRooms, (self.size, self.boxes, self.lengths)

    def draw(self, rng: np.random.Generator) -> Room:
        names = self._room_utils.__dict__
        names["random"] = _Draws(rng)
        # Only these names: a function that draws from global randomness must fail instead of making rooms that no seed
        # repeats.
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
            # The generator raises these when an attempt has no playable room.
            except (RuntimeError, RuntimeWarning):
                continue
            room = within(_level(structure, state), self.lengths)
            if room is not None:
                return room
        raise ValueError(
            f"gym-sokoban made no room of size {self.size} with {self.boxes} boxes and a shortest solution of "
            f"{self.lengths[0]} to {self.lengths[1]} moves in {TRIES} tries. Choose other bounds."
        )


def _level(structure: np.ndarray, state: np.ndarray) -> Level:
    """Return the level of its two arrays, shape (rows, columns) each: the fixed cells and the current cells."""

    def mask(cells: np.ndarray) -> int:
        return sum(1 << int(index) for index in np.flatnonzero(cells))

    height, width = structure.shape
    return Level(
        width=width,
        height=height,
        floor=mask(structure != WALL),
        targets=mask(structure == TARGET),
        boxes=mask(state == BOX),
        player=mask(state == PLAYER),
    )
