"""What a person reads of an environment: boards with coordinates, moves of the opponent, actions and their numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mage_envs.cli.keyboard import expand_abbreviations
from mage_envs.core import GameSpec
from mage_envs.text.visible import visible

_CELL = re.compile(r"\(([1-9]), ([1-9])\)")
"""Action that names a cell of a board, as in Tic-Tac-Toe."""
_SEPARATOR = " [SEP] "
"""Mark between the parts of a page of WebShop, which models read."""


class PersonView:
    """The view of one person on the hands of an environment, base or meta."""

    def __init__(self, spec: GameSpec, draws_boards: bool = True) -> None:
        """Start before the first hand.

        Args:
            draws_boards: False if the caller draws the board of a decision itself, from `choices`.
        """
        self._spec, self._draws_boards = spec, draws_boards
        self._cells: Mapping[str, str] = {}
        """Marks of the board that was shown last, by the action of their cell."""
        self._hand: tuple[int, int] = (-1, 0)
        self._moves = 0
        """Number of moves in the hand's history when it was shown last."""

    def now(self, info: Mapping[str, Any], observation: str) -> str:
        """Return the text of a decision: the moves of the opponent since the last one, and the observation.

        Args:
            info: `info` that came with the observation.
            observation: Observation, which the anchor of `info` replaces: it has no results of earlier hands.
        """
        text = str(info.get("anchor", observation))
        hand, history = (info.get("episode_index", 0), info.get("hand", 0)), info.get("history", ())
        # One move of the history is the person's own, unless the hand has just begun.
        new = history[self._moves + 1 :] if hand == self._hand else history
        self._hand, self._moves, self._cells = hand, len(history), self._board(text)
        # Chance may be part of the history, too.
        visible_moves = [move for move in new if self._spec.actions is None or move in self._spec.actions]
        return self._narrate(visible_moves, text, self._draws_boards)

    def end(self, action: str | None, observation: str) -> str:
        """Return the text of a finished hand: the last moves of the opponent if the board shows them, and its end.

        Args:
            action: Person's last action, or None if it was not legal.
            observation: Last observation of the hand.
        """
        final_board = self._board(observation)
        new = [cell for cell, mark in final_board.items() if cell != action and mark != self._cells.get(cell, mark)]
        return self._narrate(new, observation, draws_board=True)

    def numbers(self, legal: Sequence[str]) -> dict[str, str]:
        """Return the legal actions by their number. A cell of a board keeps its number throughout."""
        actions = self._spec.actions
        fixed = actions if self._cells and actions is not None else legal
        return {str(number): action for number, action in enumerate(fixed, start=1) if action in legal}

    def action(self, text: str, legal: Sequence[str]) -> str:
        """Return the action that a person typed, by its number, its beginning or in full."""
        return text if text in legal else self.numbers(legal).get(text) or expand_abbreviations(text, legal)

    def choices(self, legal: Sequence[str]) -> list[tuple[str, str, bool]]:
        """Return (action, text of its button, True if it is legal): the legal actions, or all cells of a board."""
        if not self._cells:
            return [(action, action, True) for action in legal]
        return [(cell, mark, cell in legal) for cell, mark in self._cells.items()]

    @property
    def columns(self) -> int:
        """Number of columns of the board that was shown last; 0 without a board."""
        return max((int(cell[4]) for cell in self._cells), default=0)

    def _narrate(self, moves: Sequence[str], observation: str, draws_board: bool) -> str:
        sentence = f"The opponent played {', then '.join(moves)}.\n" if moves and self._spec.players == 2 else ""
        return visible(sentence + self._draw(observation.replace(_SEPARATOR, "\n"), draws_board))

    def _board(self, observation: str) -> dict[str, str]:
        """Return the marks of a board by cell, or {} unless every action of the game is a cell of the first lines."""
        lines, marks = observation.split("\n"), {}
        for action in self._spec.actions or ():
            cell = _CELL.fullmatch(action)
            mark = None if cell is None else "".join(lines[int(cell[1]) - 1 : int(cell[1])])[int(cell[2]) - 1 :][:1]
            if not mark:
                return {}
            marks[action] = mark
        return marks

    def _draw(self, observation: str, draws_board: bool) -> str:
        """Return the observation with the numbers of rows and columns around a board, or without the board."""
        board = self._board(observation)
        if not board:
            return observation
        lines = observation.split("\n")
        rows = max(int(cell[1]) for cell in board)
        if not draws_board:
            return "\n".join(lines[rows:])
        head = "  " + " ".join(str(column + 1) for column in range(len(lines[0])))
        numbered_lines = [f"{row} {' '.join(line)}" for row, line in enumerate(lines[:rows], start=1)]
        return "\n".join([head, *numbered_lines, *lines[rows:]])
