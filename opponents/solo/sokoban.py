"""The expert of Sokoban: a solver in the learner's own seat that finds the fewest moves for the observed board."""

from __future__ import annotations

import numpy as np

from mage_envs.core import Policy, Turn
from mage_envs.games.sokoban.level import MOVES, parse_board
from mage_envs.games.sokoban.search import Retrograde

_PATIENCE = 1_000_000
"""Maximum number of entries in the search's table (a few seconds of search); beyond it the expert plays `up`."""


class SokobanExpert(Policy):
    """A solver that reads the board from the observation and plays up to `moves` moves of a shortest solution.

    If it finds no solution, it plays `up`.
    """

    def __init__(self, moves: int = 3) -> None:
        if moves not in (1, 2, 3):
            raise ValueError(f"Opponent 'sokoban/expert': moves must be 1, 2 or 3 per turn, got {moves}.")
        self._moves = moves
        self._search: Retrograde | None = None

    def reset(self, rng: np.random.Generator) -> None:
        """Start an episode; the search's table is kept while the level stays the same."""

    def act(self, turn: Turn) -> str:
        level = parse_board(turn.observation)
        # The search goes backward from the targets, so its table depends on walls and targets alone and serves all
        # turns of a level.
        search = self._search
        if search is None or (search.floor, search.targets, search.width) != (level.floor, level.targets, level.width):
            search = self._search = Retrograde(level.floor, level.targets, level.width)
        path = search.path(level.boxes, level.player, _PATIENCE)
        return ", ".join(MOVES[move] for move in path[: self._moves]) if path else MOVES[0]
