"""Many Sokoban boards as arrays: one move of all of them, their texts, their distances.

n boards of up to C cells, whose texts have up to L characters. A cell is its index `row * width + column`, the place
of its bit in the masks of `mage_envs.games.sokoban.level`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mage_envs.games.sokoban.level import BOX, FLOOR, PLACED, PLAYER, STANDING, TARGET, WALL, offsets
from mage_envs.games.sokoban.rooms import Room
from mage_envs.games.sokoban.search import Retrograde

_FLOOR, _TARGET, _BOX = 1, 2, 4
"""Bits of `Boards._cells`; a wall has none."""
_SYMBOLS = np.array(
    [ord({1: FLOOR, 3: TARGET, 5: BOX, 7: PLACED}.get(bits, WALL)) for bits in range(8)], dtype=np.uint32
)
"""By a cell's bits."""
_PLAYER_SYMBOLS = np.where(np.arange(8) & _TARGET, ord(STANDING), ord(PLAYER)).astype(np.uint32)
DEAD = -1.0
"""In `Boards.distances`: the board cannot be solved any more."""


class Boards:
    """The boards of n rows; a row is loaded before anything else is asked of it."""

    def __init__(self, rows: int) -> None:
        self._count = rows
        self.player = np.zeros(rows, dtype=np.int64)
        self.boxes = [0] * rows
        """Masks, as Python's integers."""
        self.placed = np.zeros(rows, dtype=np.int64)
        """Boxes on targets."""
        self.boxes_in_all = np.zeros(rows, dtype=np.int64)
        self.executed = np.zeros(rows, dtype=np.int64)
        self.shortest = np.zeros(rows)
        """Moves that the start needs, NaN where that is not known."""
        self._searches: list[Retrograde | None] = [None] * rows
        self._offsets = np.zeros((rows, 4), dtype=np.int64)
        self._cells = np.zeros((rows, 0), dtype=np.uint8)
        """(n, C) bits."""
        self._places = np.zeros((rows, 0), dtype=np.int64)
        """(n, C) where each cell's symbol is in the text."""
        self._distances = np.zeros((rows, 0))
        """(n, C) by the player's cell, for the boxes as they are now; NaN: not yet asked."""
        self._symbols = np.zeros((rows, 0), dtype=np.uint32)
        """(n, L) code points of the texts, zeros behind the end."""

    def load(self, row: int, room: Room, text: str) -> None:
        """Puts a room's start into a row; `text` is how the game shows it."""
        level = room.level
        size = level.width * level.height
        self._cells = _widened(self._cells, size)
        self._places = _widened(self._places, size)
        self._distances = _widened(self._distances, size)
        self._symbols = _widened(self._symbols, len(text))
        floor, targets, boxes = (_unpacked(mask, size) for mask in (level.floor, level.targets, level.boxes))
        self._cells[row, :size] = _FLOOR * floor + _TARGET * targets + _BOX * boxes
        self._symbols[row] = 0
        self._symbols[row, : len(text)] = np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
        # A row of the board is a line: its number, a colon, then a blank and a symbol per cell.
        line = text.index("\n") + 1
        first = text.index(":") + 2
        down, right = np.divmod(np.arange(size), level.width)
        self._places[row, :size] = first + down * line + 2 * right
        self._distances[row] = np.nan
        self._offsets[row] = offsets(level.width)
        self._searches[row] = room.search
        self.player[row] = level.player.bit_length() - 1
        self.boxes[row] = level.boxes
        self.boxes_in_all[row] = level.targets.bit_count()
        self.placed[row] = (level.boxes & level.targets).bit_count()
        self.executed[row] = 0
        shortest = room.search.distance(level.boxes, level.player)
        self.shortest[row] = np.nan if shortest is None else shortest

    def move(self, rows: NDArray[np.intp], moves: NDArray[np.intp]) -> None:
        """One move in each of `rows`, which are distinct, by its index in MOVES."""
        self.executed[rows] += 1
        offset = self._offsets[rows, moves]
        ahead = self.player[rows] + offset
        bits = self._cells[rows, ahead]
        walks = (bits & (_FLOOR | _BOX)) == _FLOOR
        at_box = np.flatnonzero(bits & _BOX)
        if len(at_box):
            beyond = ahead[at_box] + offset[at_box]
            free = (self._cells[rows[at_box], beyond] & (_FLOOR | _BOX)) == _FLOOR
            self._push(rows[at_box[free]], ahead[at_box[free]], beyond[free])
            walks[at_box[free]] = True
        walking, ahead = rows[walks], ahead[walks]
        left = self.player[walking]
        self._symbols[walking, self._places[walking, left]] = _SYMBOLS[self._cells[walking, left]]
        self._symbols[walking, self._places[walking, ahead]] = _PLAYER_SYMBOLS[self._cells[walking, ahead]]
        self.player[walking] = ahead

    def _push(self, rows: NDArray[np.intp], start: NDArray[np.int64], end: NDArray[np.int64]) -> None:
        self._cells[rows, start] ^= _BOX
        self._cells[rows, end] ^= _BOX
        bits = self._cells[rows, end]
        self._symbols[rows, self._places[rows, end]] = _SYMBOLS[bits]
        self.placed[rows] += (bits & _TARGET) // _TARGET
        self.placed[rows] -= (self._cells[rows, start] & _TARGET) // _TARGET
        self._distances[rows] = np.nan
        for row, from_cell, to_cell in zip(rows.tolist(), start.tolist(), end.tolist(), strict=True):
            self.boxes[row] ^= 1 << from_cell | 1 << to_cell

    def texts(self) -> list[str]:
        """The boards as the game shows them (without what it adds to a solved one)."""
        length = self._symbols.shape[1]
        shown: list[str] = self._symbols.view(f"=U{length}")[:, 0].tolist()
        return shown

    def distances(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Moves that each of `rows` still needs; DEAD, or NaN where the search is too small to tell."""
        players = self.player[rows]
        found: NDArray[np.float64] = self._distances[rows, players]
        new = np.isnan(found)
        if new.any():
            for row, player in zip(rows[new].tolist(), players[new].tolist(), strict=True):
                self._distances[row, player] = self._ask(row, player)
            found = self._distances[rows, players]
        return found

    def _ask(self, row: int, player: int) -> float:
        search = self._searches[row]
        assert search is not None
        distance = search.distance(self.boxes[row], 1 << player)
        if distance is not None:
            return float(distance)
        return DEAD if search.complete else np.nan


def _unpacked(mask: int, size: int) -> NDArray[np.uint8]:
    """(size,) the bits of a mask."""
    octets = np.frombuffer(mask.to_bytes((size + 7) // 8, "little"), dtype=np.uint8)
    return np.unpackbits(octets, count=size, bitorder="little")


def _widened(array: NDArray[Any], width: int) -> NDArray[Any]:
    """`array` with at least `width` columns; new ones are zero."""
    if array.shape[1] >= width:
        return array
    return np.ascontiguousarray(np.pad(array, ((0, 0), (0, width - array.shape[1]))))
