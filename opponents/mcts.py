"""Monte Carlo tree search by OpenSpiel's C++ bot, for games of perfect information."""

from __future__ import annotations

from typing import Any

import numpy as np

from mage_envs.core import TextGame, Turn
from opponents.openspiel import DoesNotSuit, form_of
from opponents.registry import register_opponent

UCT = 1.4
"""For returns between -1 and 1; scaled with the returns of the game."""
ROLLOUTS = 1
MEMORY_MB = 256
_SEEDS = 2**31
GAMES = ("TicTacToe", "ConnectFour", "Breakthrough", "OpenSpiel")


@register_opponent("mcts", games=GAMES, needs_game=True)
class MCTS:
    """Search with `simulations` simulations per move, one random rollout each, UCT constant 1.4, solver on.

    `reset` draws the seeds of bot and rollouts, so that equal generators play equal hands. It follows the game
    through `Turn.history` in a state of its own. Loads pyspiel when made. Raises DoesNotSuit for a game that hides
    something.
    """

    deterministic = False

    def __init__(self, game: TextGame, simulations: int = 100) -> None:
        if not game.perfect_information:
            raise DoesNotSuit(f"Opponent 'mcts' cannot play {game.name}, which hides something: take 'ismcts'.")
        if simulations < 1:
            raise ValueError(f"Opponent 'mcts': simulations must be at least 1, got {simulations}.")
        self.simulations = simulations
        self._form = form_of(game, "mcts")
        self._spiel = self._form.load()
        self._uct = UCT * max(abs(self._spiel.min_utility()), abs(self._spiel.max_utility()))
        self._state = self._spiel.new_initial_state()
        self._played: tuple[str, ...] = ()
        self._bot: Any = None

    def reset(self, rng: np.random.Generator) -> None:
        import pyspiel

        evaluator = pyspiel.RandomRolloutEvaluator(ROLLOUTS, int(rng.integers(_SEEDS)))
        self._bot = pyspiel.MCTSBot(
            self._spiel, evaluator, self._uct, self.simulations, MEMORY_MB, True, int(rng.integers(_SEEDS)), False
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
