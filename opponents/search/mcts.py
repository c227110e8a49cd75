"""Monte Carlo tree search by OpenSpiel's C++ bot, for games of perfect information."""

from __future__ import annotations

from typing import Any

import numpy as np

from mage_envs.core import Game, Policy, Turn
from mage_envs.opponents.search.openspiel import DoesNotSuit, form_of
from mage_envs.random.streams import SEED_BITS, fold

UCT = 1.4
"""UCT constant for returns between -1 and 1; it is multiplied by the largest return of the game."""
ROLLOUTS = 1
MEMORY_MB = 256
MAX_SIMULATIONS = 10_000_000
"""Maximum number of simulations per move, which take minutes in the smallest games."""
_SEEDS = 2**31


class MCTS(Policy):
    """Monte Carlo tree search with `simulations` simulations per move, one random rollout each, and MCTS-Solver.

    `reset` draws one seed. Each move uses a new bot, which depends only on that seed and on `Turn.history`. pyspiel is
    imported when the policy is made. Raises DoesNotSuit if the game has hidden information.
    """

    def __init__(self, game: Game, simulations: int = 100) -> None:
        if not game.spec.perfect_information:
            raise DoesNotSuit(f"Opponent 'mcts' cannot play {game.title}, which has hidden information. Use 'ismcts'.")
        if not 1 <= simulations <= MAX_SIMULATIONS:
            raise ValueError(
                f"Opponent 'mcts': simulations must be from 1 to {MAX_SIMULATIONS:,}, got {simulations:,}."
            )
        self.simulations = simulations
        self._form = form_of(game, "mcts")
        loaded = self._form.load()
        self._uct = UCT * max(abs(loaded.min_utility()), abs(loaded.max_utility()))
        self._state = loaded.new_initial_state()
        """OpenSpiel state after the actions in `_played`."""
        self._played: tuple[str, ...] = ()
        self._seed = 0

    def reset(self, rng: np.random.Generator) -> None:
        self._seed = int(rng.integers(2**SEED_BITS))

    def act(self, turn: Turn) -> str:
        self._follow(turn.history)
        legal = self._state.legal_actions()
        if len(legal) != len(turn.legal_actions):
            raise ValueError(
                f"Opponent 'mcts' needs the whole history of the hand; after {turn.history} OpenSpiel has "
                f"{len(legal)} legal actions, the turn {len(turn.legal_actions)}."
            )
        index: int = legal.index(self._bot(len(turn.history)).step(self._state))
        return turn.legal_actions[index]

    def _bot(self, move: int) -> Any:
        """Return a new search for one move."""
        import pyspiel

        # A bot cannot be copied and policies must be, so the policy keeps a seed instead of a bot.
        game = self._form.load()
        # Rollouts and tree search use separate seeds, both derived from the hand's seed and the number of the move.
        evaluator = pyspiel.RandomRolloutEvaluator(ROLLOUTS, fold(self._seed, move, 0) % _SEEDS)
        search = fold(self._seed, move, 1) % _SEEDS
        return pyspiel.MCTSBot(game, evaluator, self._uct, self.simulations, MEMORY_MB, True, search, False)

    def _follow(self, history: tuple[str, ...]) -> None:
        # Replay only the new moves, unless this is another hand: then start again from the initial state.
        num_applied = len(self._played)
        if history[:num_applied] != self._played:
            self._state, num_applied = self._form.load().new_initial_state(), 0
        for text in history[num_applied:]:
            self._state.apply_action(self._form.action_of(self._state, text))
        self._played = history
