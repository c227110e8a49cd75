"""Texts of Breakthrough: a board with letters and numbers, and moves that name two fields."""

from __future__ import annotations

from typing import Any

from mage_envs.games.openspiel.generic_texts import Texts
from mage_envs.spiel.wrappers import Unwrapped
from mage_envs.text.words.spelling import WordsOfState

_COLOURS = ("black (b)", "white (w)")


def _words(key: str, seat: int) -> tuple[str, ...]:
    """Return the pieces by their fields, such as `a2` or the opponent's `opp-a7`."""
    # A row is its label and one mark per column. The last line holds the letters of the columns.
    *rows, letters = key.partition("|")[0].rstrip().splitlines()
    return tuple(
        f"{'' if mark == 'bw'[seat] else 'opp-'}{letter}{row[: -len(letters.strip())]}"
        for row in rows
        for letter, mark in zip(letters.strip(), row[-len(letters.strip()) :], strict=True)
        if mark != "."
    )


class BreakthroughTexts(Texts):
    """Texts of Breakthrough on a board of any size."""

    def __init__(self, game: Any, unwrapped: Unwrapped) -> None:
        super().__init__(game, unwrapped)
        self.worded = True
        self._rows, self._columns = int(self.parameters["rows"]), int(self.parameters["columns"])
        letters = [chr(ord("a") + column) for column in range(self._columns)]
        # Every move that some position allows: one row up or down, straight or diagonally.
        self._actions: tuple[str, ...] = tuple(
            f"{letters[column]}{row}{letters[column + side]}{row + step}"
            for row in range(1, self._rows + 1)
            for column in range(self._columns)
            for step in (-1, 1)
            if 1 <= row + step <= self._rows
            for side in (-1, 0, 1)
            if 0 <= column + side < self._columns
        )

    def rules(self) -> str:
        return (
            f"Breakthrough on a board of {self._rows} rows and {self._columns} columns. Player 0 has the black pieces "
            "(b), which start at the top and move down; player 1 has the white ones (w), which move up. Black moves "
            "first, then the players take turns. A piece moves one field straight or diagonally forward onto a free "
            "field, or diagonally forward onto a field with an opposing piece, which is taken; it never takes straight "
            "ahead. Whoever first brings a piece to the far row, or takes all opposing pieces, wins. A move is written "
            "as the field left and the field entered, a letter for the column and a number for the row each, as "
            "in a7a6."
        )

    def words(self) -> WordsOfState:
        return _words

    def action(self, state: Any, player: int, action: int) -> str:
        # OpenSpiel marks a capture with `*`. The two fields identify the move without it.
        return str(state.action_to_string(player, action)).rstrip("*")

    def place(self, player: int) -> str:
        return f"You are {_COLOURS[player]}."
