"""The Bayes-optimal learner as a policy: it takes a seat like any other, and adapts within the meta-episode."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from mage_envs.core import Game, State, Turn
from opponents.exact.bayes import BayesSolution
from opponents.exact.hands import Branch
from opponents.pools import OpponentPool, PoolSpec, as_pool


class BayesPolicy:
    """Plays the policy of `BayesSolution` against one opponent drawn from `pool`.

    It counts the hands of the meta-episode by the results that it is shown. It starts anew, as if the next hand were
    the first, after as many hands as were planned, and after evidence that no opponent of the pool can give.
    """

    def __init__(self, game: Game, pool: PoolSpec, episodes: int = 3, hands: int = 1, last_only: bool = False) -> None:
        self._game = game
        self._problem = (as_pool(pool), episodes, hands, last_only)
        self._planned = episodes * hands
        game.initial_states()
        self.begin_meta_episode()

    def begin_meta_episode(self) -> None:
        """Forgets everything."""
        self._hand = self._state = 0
        self._seat0: int | None = None
        """The seat of the first hand, once it is known."""
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
        if self._seat0 is None:
            self._seat0 = turn.player
        if self._solution is None:
            rules = _Rules(tuple(self._game.initial_states()), self._game)
            self._solution = _solve(rules, self._seat0, *self._problem)
        return self._solution

    def _branch(self, solution: BayesSolution) -> Branch:
        branch = solution.hands[self._hand].root
        for state, action in self._said:
            branch = branch.decisions[state][action]
        return branch

    def __getstate__(self) -> dict[str, Any]:
        """All but the solution, which is large and found again."""
        return {**self.__dict__, "_solution": None}


@dataclass(frozen=True)
class _Rules:
    """A game, equal to another with the very same first states."""

    states: tuple[tuple[float, State], ...]
    game: Game = field(compare=False)


@lru_cache(maxsize=8)
def _solve(rules: _Rules, seat0: int, pool: OpponentPool, episodes: int, hands: int, last_only: bool) -> BayesSolution:
    """Solved once for all policies of a process that play the same problem."""
    return BayesSolution(rules.game, pool, seat0, episodes=episodes, hands=hands, last_only=last_only)


def bayes(game: Game, pool: str, episodes: int = 3, hands: int = 1) -> BayesPolicy:
    """`bayes:kuhn/demo,3,3` plays best against an opponent drawn from that pool, in 3 episodes of 3 hands."""
    return BayesPolicy(game, f"pool:{pool}", episodes, hands)
