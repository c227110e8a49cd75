"""The best plan without memory of earlier episodes, as a policy, for pools with opponents that learn or change."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from mage_envs.core import Game, Policy, Turn
from mage_envs.opponents.exact.learner_values import BestPlan, Schedule, best_plan
from mage_envs.opponents.exact.modes import Modes
from mage_envs.opponents.exact.plans import LearnerHands
from mage_envs.opponents.exact.tree import Rules
from mage_envs.opponents.pools import OpponentPool, PoolSpec, as_pool


class PlanPolicy(Policy):
    """The best play that forgets everything between episodes of one hand, and plays all of them alike.

    Opponents that learn remember what it did. At a decision that no opponent of the pool leads to, it plays the first
    action.
    """

    def __init__(self, game: Game, pool: PoolSpec, episodes: int = 3, alternate: bool = True) -> None:
        """Initialize the policy; the plan is computed at the first turn.

        Args:
            pool: Opponents and their prior probabilities.
            episodes: Episodes of the meta-episode.
            alternate: True if the seat changes from episode to episode.

        Raises:
            NotExact: If an opponent has no exact probabilities.
            NotEnumerable: If the game has no enumerable tree.
        """
        self._game, self._pool, self._episodes, self._alternate = game, as_pool(pool), episodes, alternate
        game.initial_states()
        Modes(game, self._pool)

    def reset(self, rng: np.random.Generator) -> None:
        """Start a hand; the policy draws no random numbers."""

    def act(self, turn: Turn) -> str:
        [action] = self.distribution(turn)
        return action

    def distribution(self, turn: Turn) -> Mapping[str, float]:
        """Return probability 1 for the one action."""
        seat0 = (turn.player - turn.episode) % 2 if self._alternate else turn.player
        rules = Rules(tuple(self._game.initial_states()), self._game)
        plan = _plan_of(rules, self._pool, self._episodes, alternate=self._alternate, seat0=seat0).plans[turn.player]
        return {plan.get(turn.information_state, turn.legal_actions[0]): 1.0}

    def report_belief(self) -> dict[str, float]:
        """Return the prior probability of each opponent, because the policy remembers nothing."""
        return dict(zip(map(str, self._pool.entries), self._pool.weights, strict=True))


@lru_cache(maxsize=64)
def _plan_of(rules: Rules, pool: OpponentPool, episodes: int, *, alternate: bool, seat0: int) -> BestPlan:
    """Return the plan of a pool and a first seat; all policies of a process share it."""
    hands = LearnerHands(rules.game, Modes(rules.game, pool))
    return best_plan(hands, Schedule.of(2, seat0, episodes, 1, alternate=alternate))
