"""Information-set Monte Carlo tree search (Cowling, Powley, Whitehouse 2012), for games that hide something.

The search deals out what is hidden anew in each simulation. A policy never sees the game, so the positions to deal
from are worked out from its own turns (`opponents.worlds`). The search is OpenSpiel's Python bot; its C++ bot breaks
ties by the order of a hash table, which differs from run to run, so that a seed would not bring the same hand back.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mage_envs.core import Game, Turn
from mage_envs.randomness import SEED_BITS, Stream, fold
from opponents.mcts import ROLLOUTS, UCT
from opponents.openspiel import DoesNotSuit, form_of
from opponents.worlds import NothingFits, Worlds

_SEEDS = 2**32


class ISMCTS:
    """Search with `simulations` simulations per move; plays the most visited action.

    `reset` draws one seed, from which all else follows. It must see all its turns of a hand. Raises DoesNotSuit for a
    game that hides nothing, and ValueError during the hand where no position that was followed fits (deals of many
    cards at once).
    """

    def __init__(self, game: Game, simulations: int = 100) -> None:
        if game.facts.perfect_information:
            raise DoesNotSuit(
                f"Opponent 'ismcts' is for games that hide something; {game.facts.name} does not: take 'mcts'."
            )
        if simulations < 1:
            raise ValueError(f"Opponent 'ismcts': simulations must be at least 1, got {simulations}.")
        self.simulations = simulations
        self._name = game.facts.name
        self._form = form_of(game, "ismcts")
        self._form.load()
        self._worlds: Worlds | None = None
        self._seed = self._moves = 0

    def reset(self, rng: np.random.Generator) -> None:
        self._seed, self._moves = int(rng.integers(2**SEED_BITS)), 0
        self._worlds = Worlds(self._form, Stream(self._seed).generator())

    def act(self, turn: Turn) -> str:
        worlds = self._worlds
        if worlds is None:
            raise ValueError("Opponent 'ismcts' must be reset before it acts.")
        try:
            worlds.see(turn.player, self._form.state_of(turn))
        except NothingFits as error:
            raise ValueError(f"Opponent 'ismcts' cannot play {self._name} on: {error}; take another one.") from None
        state = worlds.sample()
        actions = state.legal_actions()
        action: int = actions[0] if len(actions) == 1 else int(self._bot(worlds).step(state))
        worlds.play(action)
        self._moves += 1
        index: int = actions.index(action)
        return turn.legal_actions[index]

    def _bot(self, worlds: Worlds) -> Any:
        """The search for one move; bots cannot be copied, so none is kept."""
        from open_spiel.python.algorithms import ismcts, mcts

        game = self._form.load()
        rollouts, search = (np.random.RandomState(fold(self._seed, self._moves, n) % _SEEDS) for n in (0, 1))
        by_observation = not game.get_type().provides_information_state_string
        bot = ismcts.ISMCTSBot(
            game,
            mcts.RandomRolloutEvaluator(ROLLOUTS, rollouts),
            UCT * max(abs(game.min_utility()), abs(game.max_utility())),
            self.simulations,
            random_state=search,
            use_observation_string=by_observation,
            allow_inconsistent_action_sets=by_observation,
        )
        bot.set_resampler(lambda state, player: worlds.sample())
        return bot
