"""Information-set Monte Carlo tree search (Cowling, Powley, Whitehouse 2012), for games with hidden information.

Each simulation starts from another position that fits the player's knowledge. A policy never sees the state of the
game, so the module `worlds` infers these positions from its own turns. The search is OpenSpiel's Python bot. Its C++
bot breaks ties by the order of a hash table. That order differs from run to run, so a seed would not reproduce a hand.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mage_envs.core import Game, Policy, Turn
from mage_envs.opponents.search.mcts import MAX_SIMULATIONS, ROLLOUTS, UCT
from mage_envs.opponents.search.openspiel import DoesNotSuit, form_of
from mage_envs.opponents.search.worlds import NothingFits, Worlds
from mage_envs.random.streams import SEED_BITS, Stream, fold

_SEEDS = 2**32


class ISMCTS(Policy):
    """Information-set search with `simulations` simulations per move that plays the most visited action.

    `reset` draws one seed, which determines all moves of the hand. The policy must act at all of its turns of a hand.
    Raises DoesNotSuit if the game has perfect information. Raises ValueError during a hand if none of the tracked
    positions fits a turn, which may happen when many cards are dealt at once.
    """

    def __init__(self, game: Game, simulations: int = 100) -> None:
        if game.spec.perfect_information:
            raise DoesNotSuit(f"Opponent 'ismcts' requires hidden information; {game.title} has none. Use 'mcts'.")
        if not 1 <= simulations <= MAX_SIMULATIONS:
            raise ValueError(
                f"Opponent 'ismcts': simulations must be from 1 to {MAX_SIMULATIONS:,}, got {simulations:,}."
            )
        self.simulations = simulations
        self._name = game.spec.name
        self._form = form_of(game, "ismcts")
        # Load the OpenSpiel game now, so that a missing pyspiel raises when the opponent is made.
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
            raise ValueError(
                f"Opponent 'ismcts' cannot continue this hand of {self._name}: {error}. Use another opponent."
            ) from None
        state = worlds.sample()
        actions = state.legal_actions()
        action: int = actions[0] if len(actions) == 1 else int(self._bot(worlds).step(state))
        worlds.play(action)
        self._moves += 1
        index: int = actions.index(action)
        return turn.legal_actions[index]

    def _bot(self, worlds: Worlds) -> Any:
        """Return a new search for one move."""
        from open_spiel.python.algorithms import ismcts, mcts

        # A new bot per move, because a bot cannot be copied and policies must be.
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
        # The bot's default asks the state itself to resample; the tracked positions work for every game.
        bot.set_resampler(lambda state, player: worlds.sample())
        return bot
