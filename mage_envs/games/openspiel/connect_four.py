"""Texts of Connect Four: a board with numbered columns, and moves that are the number of a column."""

from __future__ import annotations

from typing import Any

from mage_envs.games.openspiel.generic_texts import Texts
from mage_envs.spiel.wrappers import Unwrapped
from mage_envs.text.words.spelling import WordsOfState

_MARKS = "xo"


def _words(board: str, seat: int) -> tuple[str, ...]:
    """Return the pieces by column and row, counted from the bottom left, such as `4-1` or the opponent's `opp-4-2`."""
    return tuple(
        f"{'' if mark == _MARKS[seat] else 'opp-'}{column}-{row}"
        for row, line in enumerate(reversed(board.split()), start=1)
        for column, mark in enumerate(line, start=1)
        if mark != "."
    )


class ConnectFourTexts(Texts):
    """Texts of Connect Four on a board of any size."""

    def __init__(self, game: Any, unwrapped: Unwrapped) -> None:
        super().__init__(game, unwrapped)
        self.worded = True
        self._columns, self._rows = int(self.parameters["columns"]), int(self.parameters["rows"])
        self._line = int(self.parameters["x_in_row"])
        self._actions: tuple[str, ...] = tuple(str(column + 1) for column in range(self._columns))
        # One character per column keeps the heading aligned with the board, so column 10 is shown as 0.
        self._heading = "".join(str((column + 1) % 10) for column in range(self._columns))

    def rules(self) -> str:
        return (
            f"Connect Four on a board of {self._rows} rows and {self._columns} columns. The players drop a piece into "
            f"a column in turn, x first; it falls on the lowest free cell. Whoever first has {self._line} pieces in a "
            "row, horizontal, vertical or diagonal, wins; a full board without such a row is a draw. The board is "
            "shown from the top row down, '.' is a free cell, and the columns are numbered below it. A move is the "
            f"number of a column that is not full, from 1 (left) to {self._columns} (right)."
        )

    def words(self) -> WordsOfState:
        return _words

    def action(self, state: Any, player: int, action: int) -> str:
        return self._actions[action]

    def key(self, state: Any, player: int) -> str:
        # The board alone is a key, because the number of pieces implies the player to move.
        return str(state)

    def view(self, state: Any, player: int) -> str:
        return f"{str(state).rstrip()}\n{self._heading}"

    def place(self, player: int) -> str:
        return f"You are {_MARKS[player]}."
