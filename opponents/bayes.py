"""The Bayes-optimal learner as a policy: it takes a seat like any other, and adapts within the meta-episode."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from mage_envs.core import TextGame, Turn
from opponents.exact.bayes import BayesSolution
from opponents.exact.hands import Branch
from opponents.exact.tree import roots_of
from opponents.pools import OpponentPool, PoolSpec, as_pool
from opponents.registry import register_opponent


class BayesPolicy:
    """Plays the policy of `BayesSolution` against one opponent drawn from `pool`.

    It counts the hands of the meta-episode by the results that it is shown. It starts anew, as if the next hand were
    the first, after as many hands as were planned, and after evidence that no opponent of the pool can give.
    """

    deterministic = True

    def __init__(
        self, game: TextGame, pool: PoolSpec, episodes: int = 3, hands: int = 1, last_only: bool = False
    ) -> None:
        self._rules = _Rules(tuple(roots_of(game)), game)
        self._problem = (as_pool(pool), episodes, hands, last_only)
        self._planned = episodes * hands
        self.begin_meta_episode()

    def begin_meta_episode(self) -> None:
        """Forgets everything."""
        self._hand = self._state = 0
        self._solution: BayesSolution | None = None
        self._said: list[tuple[str, str]] = []

    def reset(self, rng: np.random.Generator) -> None:
        """Starts a hand; nothing is drawn."""
        self._said = []

    def act(self, turn: Turn) -> str:
        solution = self._solved(turn)
        options = self._branch(solution).decisions[turn.information_state]
        action = solution.choose(self._hand, self._state, options)
        self._said.append((turn.information_state, action))
        return action

    def see_result(self, turn: Turn) -> None:
        """Updates the belief by all that was seen of the hand."""
        solution = self._solved(turn)
        outcome = self._branch(solution).outcomes.get(turn.observation)
        last = self._hand + 1 == self._planned
        state = None if last or outcome is None else solution.learn(self._hand, self._state, outcome.evidence)
        if state is None:
            self.begin_meta_episode()
            return
        self._hand, self._state, self._said = self._hand + 1, state, []

    def _solved(self, turn: Turn) -> BayesSolution:
        if self._solution is None:
            self._solution = _solve(self._rules, turn.player, *self._problem)
        return self._solution

    def _branch(self, solution: BayesSolution) -> Branch:
        branch = solution.hands[self._hand].root
        for state, action in self._said:
            branch = branch.decisions[state][action]
        return branch


@dataclass(frozen=True)
class _Rules:
    """A game, equal to another with the very same tree."""

    roots: tuple[Any, ...]
    game: TextGame = field(compare=False)


@lru_cache(maxsize=8)
def _solve(rules: _Rules, seat0: int, pool: OpponentPool, episodes: int, hands: int, last_only: bool) -> BayesSolution:
    """Solved once for all policies of a process that play the same problem."""
    return BayesSolution(rules.game, pool, seat0, episodes=episodes, hands=hands, last_only=last_only)


@register_opponent("bayes", needs_game=True, form="bayes:pool,episodes,hands")
def bayes(game: TextGame, pool: str, episodes: int = 3, hands: int = 1) -> BayesPolicy:
    """`bayes:kuhn/demo,3,3` plays best against an opponent drawn from that pool, in 3 episodes of 3 hands."""
    return BayesPolicy(game, f"pool:{pool}", episodes, hands)
