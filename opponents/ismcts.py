"""Information-set Monte Carlo tree search (Cowling, Powley, Whitehouse 2012), for games that hide something.

The search deals out what is hidden anew in each simulation. A policy never sees the game, so the positions to deal
from are worked out from its own turns (`opponents.worlds`). The search is OpenSpiel's Python bot; its C++ bot breaks
ties by the order of a hash table, which differs from run to run, so that a seed would not bring the same hand back.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mage_envs.core import TextGame, Turn
from opponents.openspiel import DoesNotSuit, form_of
from opponents.registry import register_opponent
from opponents.worlds import Lost, Worlds

UCT = 1.4
"""For returns between -1 and 1; scaled with the returns of the game."""
ROLLOUTS = 1
_SEEDS = 2**31
GAMES = ("KuhnPoker", "LeducPoker", "LiarsDice", "Negotiation", "OpenSpiel")


@register_opponent("ismcts", games=GAMES, needs_game=True)
class ISMCTS:
    """Search with `simulations` simulations per move; plays the most visited action.

    `reset` draws all seeds, so that equal generators play equal hands. It must see all its turns of a hand. Raises
    DoesNotSuit for a game that hides nothing, and ValueError during the hand where no position that was followed fits
    (deals of many cards at once).
    """

    deterministic = False

    def __init__(self, game: TextGame, simulations: int = 100) -> None:
        if game.perfect_information:
            raise DoesNotSuit(f"Opponent 'ismcts' is for games that hide something; {game.name} does not: take 'mcts'.")
        if simulations < 1:
            raise ValueError(f"Opponent 'ismcts': simulations must be at least 1, got {simulations}.")
        self.simulations = simulations
        self._name = game.name
        self._form = form_of(game, "ismcts")
        self._spiel = self._form.load()
        self._worlds: Worlds | None = None
        self._bot: Any = None

    def reset(self, rng: np.random.Generator) -> None:
        seeds = [int(rng.integers(_SEEDS)) for _ in range(3)]
        self._worlds = Worlds(self._form, np.random.default_rng(seeds[0]))
        self._bot = self._made_bot(self._worlds, seeds[1], seeds[2])

    def _made_bot(self, worlds: Worlds, rollouts: int, search: int) -> Any:
        from open_spiel.python.algorithms import ismcts, mcts

        uct = UCT * max(abs(self._spiel.min_utility()), abs(self._spiel.max_utility()))
        by_observation = not self._spiel.get_type().provides_information_state_string
        bot = ismcts.ISMCTSBot(
            self._spiel,
            mcts.RandomRolloutEvaluator(ROLLOUTS, np.random.RandomState(rollouts)),
            uct,
            self.simulations,
            random_state=np.random.RandomState(search),
            use_observation_string=by_observation,
            allow_inconsistent_action_sets=by_observation,
        )
        bot.set_resampler(lambda state, player: worlds.sample())
        return bot

    def act(self, turn: Turn) -> str:
        worlds = self._worlds
        if worlds is None:
            raise ValueError("Opponent 'ismcts' must be reset before it acts.")
        try:
            worlds.see(turn.player, self._form.state_of(turn))
        except Lost as error:
            raise ValueError(f"Opponent 'ismcts' cannot play {self._name} on: {error}; take another one.") from None
        state = worlds.sample()
        actions = state.legal_actions()
        action: int = actions[0] if len(actions) == 1 else int(self._bot.step(state))
        worlds.play(action)
        index: int = actions.index(action)
        return turn.legal_actions[index]

    def __getstate__(self) -> dict[str, Any]:
        """All but what belongs to the hand, which does not pickle; `reset` makes the next one."""
        return {**self.__dict__, "_bot": None, "_worlds": None}
