"""Monte Carlo tree search by OpenSpiel's C++ bot, for games of perfect information."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mage_envs.core import TextGame, Turn
from mage_envs.games.tictactoe import ACTIONS
from opponents.registry import register_opponent

UCT = 1.4
ROLLOUTS = 1
MEMORY_MB = 256
_SEEDS = 2**31


@dataclass(frozen=True)
class SearchForm:
    """How a text game is played in OpenSpiel.

    The order of `Turn.legal_actions` must be the order of the OpenSpiel state's `legal_actions()`, and
    `Turn.history` must hold all moves since the start.
    """

    short_name: str
    """What `pyspiel.load_game` takes."""
    action_of: Callable[[Any, str], int]
    """(OpenSpiel state, action text) to OpenSpiel action. A module-level function keeps the bot picklable."""


_CELLS = {action: cell for cell, action in enumerate(ACTIONS)}


def _cell(state: Any, text: str) -> int:
    return _CELLS[text]


SEARCHABLE: dict[str, SearchForm] = {"TicTacToe": SearchForm("tic_tac_toe", _cell)}
"""`TextGame.name` to its form. A new entry is all that a further game needs."""


@register_opponent("mcts", games=SEARCHABLE, needs_game=True)
class MCTS:
    """Search with `simulations` simulations per move, one random rollout each, UCT constant 1.4, solver on.

    `reset` draws the seeds of bot and rollouts, so that equal generators play equal hands. It follows the game
    through `Turn.history` in a state of its own. Loads pyspiel when made.
    """

    deterministic = False

    def __init__(self, game: TextGame, simulations: int = 100) -> None:
        if game.name not in SEARCHABLE:
            raise ValueError(f"Opponent 'mcts' cannot play {game.name}; add its form to opponents.mcts.SEARCHABLE.")
        if simulations < 1:
            raise ValueError(f"Opponent 'mcts': simulations must be at least 1, got {simulations}.")
        import pyspiel

        self.simulations = simulations
        self._form = SEARCHABLE[game.name]
        self._spiel = pyspiel.load_game(self._form.short_name)
        self._state = self._spiel.new_initial_state()
        self._played: tuple[str, ...] = ()
        self._bot: Any = None

    def reset(self, rng: np.random.Generator) -> None:
        import pyspiel

        evaluator = pyspiel.RandomRolloutEvaluator(ROLLOUTS, int(rng.integers(_SEEDS)))
        self._bot = pyspiel.MCTSBot(
            self._spiel, evaluator, UCT, self.simulations, MEMORY_MB, True, int(rng.integers(_SEEDS)), False
        )
        self._state = self._spiel.new_initial_state()
        self._played = ()

    def act(self, turn: Turn) -> str:
        self._follow(turn.history)
        legal = self._state.legal_actions()
        if len(legal) != len(turn.legal_actions):
            raise ValueError(
                f"Opponent 'mcts' needs the whole history of the hand; after {turn.history} OpenSpiel has "
                f"{len(legal)} legal actions, the turn {len(turn.legal_actions)}."
            )
        index: int = legal.index(self._bot.step(self._state))
        return turn.legal_actions[index]

    def _follow(self, history: tuple[str, ...]) -> None:
        known = len(self._played)
        if history[:known] != self._played:
            self._state, known = self._spiel.new_initial_state(), 0
        for text in history[known:]:
            self._state.apply_action(self._form.action_of(self._state, text))
        self._played = history

    def __getstate__(self) -> dict[str, Any]:
        """All but the bot, which does not pickle; `reset` makes the next one."""
        return {**self.__dict__, "_bot": None}
