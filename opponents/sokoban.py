"""The expert of Sokoban: solves the board that it sees, in the fewest moves. It takes the learner's own seat."""

from __future__ import annotations

import numpy as np

from mage_envs.core import Turn
from mage_envs.games.sokoban import MOVES, Retrograde, parse_board

_PATIENCE = 1_000_000
"""Entries of the search's table after which the expert gives a board up (a few seconds)."""


class SokobanExpert:
    """Reads the board off the observation and plays up to `moves` moves of a shortest solution, `up` without one."""

    def __init__(self, moves: int = 3) -> None:
        if moves not in (1, 2, 3):
            raise ValueError(f"sokoban/expert plays 1 to 3 moves a turn, not {moves}.")
        self._moves = moves
        self._search: Retrograde | None = None

    def reset(self, rng: np.random.Generator) -> None:
        """Starts an episode; what was searched stays, as long as the level is the same."""

    def act(self, turn: Turn) -> str:
        level = parse_board(turn.observation)
        search = self._search
        if search is None or (search.floor, search.targets, search.width) != (level.floor, level.targets, level.width):
            search = self._search = Retrograde(level.floor, level.targets, level.width)
        path = search.path(level.boxes, level.player, _PATIENCE)
        return ", ".join(MOVES[move] for move in path[: self._moves]) if path else MOVES[0]
