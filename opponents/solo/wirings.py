"""Exact values of a room of SokobanControls, by position, keys left, and the wirings that are possible.

A set of wirings is a number of 24 bits. The effect of a key splits the set: a move shows the key's direction, and if
nothing happens, the direction is one of those that are blocked. Wirings are equally likely, so a share of the set is a
probability. Sets that differ by an exchange of keys have the same value, and only one of them is solved.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import permutations
from typing import NamedTuple

from mage_envs.games.sokoban.controls import KEYS, WIRINGS, directions_of
from mage_envs.games.sokoban.level import offsets, step
from mage_envs.games.sokoban.rooms import Room

ALL = (1 << len(WIRINGS)) - 1
"""Set of all wirings."""
NOTHING = -1
"""KeyEffect of a key that changed nothing, instead of the index of a direction."""
_DIRECTIONS = [directions_of(wiring) for wiring in WIRINGS]
AGREE = [
    [sum(1 << number for number, wiring in enumerate(_DIRECTIONS) if wiring[key] == move) for move in range(4)]
    for key in range(len(KEYS))
]
"""Set of the wirings in which a key (first index) moves in a direction (second index)."""
_EXCHANGES = [
    [_DIRECTIONS.index(tuple(wiring[key] for key in keys)) for wiring in _DIRECTIONS]
    for keys in permutations(range(len(KEYS)))
]
"""For each exchange of keys: the wiring that each wiring becomes."""
SAME = 9
"""Decimals to which two values are compared."""


def partition_wirings(wirings: int, key: int, blocked: int) -> dict[int, int]:
    """Return the possible effects of a key, a direction or `NOTHING`, with the wirings that agree.

    Args:
        wirings: Set of the possible wirings.
        blocked: Bits of the directions in which nothing would move.
    """
    parts: dict[int, int] = {}
    for move, agree in enumerate(AGREE[key]):
        if part := wirings & agree:
            effect = NOTHING if blocked >> move & 1 else move
            parts[effect] = parts.get(effect, 0) | part
    return parts


@cache
def canonical(wirings: int) -> int:
    """Return the one of the sets that differ by an exchange of keys which stands for all of them."""
    members = [number for number in range(len(WIRINGS)) if wirings >> number & 1]
    return min(sum(1 << exchange[number] for number in members) for exchange in _EXCHANGES)


class KeyEffect(NamedTuple):
    """One possible effect of a key."""

    move: int
    """Index of a direction, or `NOTHING`."""
    wirings: int
    """Canonical set of the wirings after it."""
    chance: float


@cache
def choices(wirings: int, blocked: int) -> tuple[tuple[KeyEffect, ...], ...]:
    """Return the different choices of a key, each as its possible effects. Fewer effects come first."""
    size = wirings.bit_count()
    effect_sets = {
        tuple(
            KeyEffect(move, canonical(part), part.bit_count() / size)
            for move, part in sorted(partition_wirings(wirings, key, blocked).items())
        )
        for key in range(len(KEYS))
    }
    return tuple(sorted(effect_sets, key=lambda effects: (len(effects), effects)))


class RoomPositions:
    """The positions of a room."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self._offsets = offsets(room.level.width)
        self._after: dict[tuple[int, int], tuple[list[tuple[int, int]], int]] = {}

    def after(self, boxes: int, at: int) -> tuple[list[tuple[int, int]], int]:
        """Return the position after each move, and the bits of the moves that change nothing."""
        key = boxes, at
        transitions = self._after.get(key)
        if transitions is None:
            moved = [step(self.room.level.floor, boxes, at, offset) for offset in self._offsets]
            # The last entry is the position itself, at the index `NOTHING`.
            transitions = [*moved, key], sum(1 << move for move, position in enumerate(moved) if position == key)
            self._after[key] = transitions
        return transitions

    def solvable(self, boxes: int, at: int, keys_left: int) -> bool:
        """Return True if the position can be solved with that many moves."""
        distance = self.room.search.distance(boxes, at)
        return distance is not None and distance <= keys_left

    def outcomes(
        self, position: tuple[int, int, int], wirings: int, keys: Sequence[int]
    ) -> dict[tuple[int, int, int], int]:
        """Return the possible positions after some keys, with the wirings that agree.

        Args:
            position: Boxes, player's cell and keys left.
            wirings: Set of the possible wirings.
            keys: Indices of the keys. Those after the end of the hand are not pressed.
        """
        parts: dict[tuple[int, int, int], int] = {}
        for number, directions in enumerate(_DIRECTIONS):
            if wirings >> number & 1:
                boxes, at, keys_left = position
                for key in keys:
                    if keys_left and boxes != self.room.level.targets:
                        (boxes, at), keys_left = self.after(boxes, at)[0][directions[key]], keys_left - 1
                parts[boxes, at, keys_left] = parts.get((boxes, at, keys_left), 0) | 1 << number
        return parts


class RoomValues:
    """The probability of success in one room, by position, keys left and possible wirings."""

    def __init__(self, room: Room) -> None:
        self.board = RoomPositions(room)
        self._known: dict[tuple[int, int, int, int], float] = {}

    def value(self, boxes: int, at: int, keys_left: int, wirings: int) -> float:
        """Return the greatest probability of success. `wirings` must be canonical."""
        if not self.board.solvable(boxes, at, keys_left):
            return 0.0
        # A learner that knows the wiring plays a shortest solution.
        if wirings.bit_count() == 1 or boxes == self.board.room.level.targets:
            return 1.0
        key = boxes, at, keys_left, wirings
        probability = self._known.get(key)
        if probability is None:
            next_positions, blocked = self.board.after(boxes, at)
            probability = self._known[key] = max(
                sum(
                    chance * self.value(*next_positions[move], keys_left - 1, next_wirings)
                    for move, next_wirings, chance in effects
                )
                for effects in choices(wirings, blocked)
            )
        return probability

    def of_key(self, position: tuple[int, int, int], wirings: int, key: int) -> tuple[float, int]:
        """Return the value of pressing a key, and minus its number of possible effects.

        Args:
            position: Boxes, player's cell and keys left.
            wirings: Set of the possible wirings, which need not be canonical.
        """
        boxes, at, keys_left = position
        next_positions, blocked = self.board.after(boxes, at)
        parts = partition_wirings(wirings, key, blocked)
        total = sum(
            part.bit_count() * self.value(*next_positions[move], keys_left - 1, canonical(part))
            for move, part in parts.items()
        )
        return round(total / wirings.bit_count(), SAME), -len(parts)
