"""Games of related tasks: every episode is another task, and one hidden fact stays the same.

The fact sits in the second seat. In the first move of a hand the second player states it, unseen by the learner; after
that the learner plays alone. So the fact is an ordinary opponent: drawn once per meta-episode from a pool, revealed at
the end, and paired with the same tasks in every panel. `register_related` registers such a game (docs/related.md).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from mage_envs.core import Game, IllegalAction, State
from mage_envs.drawing.picture import Picture

WAITING = "The other player has not moved yet."
"""Observation of the first player before the fact is stated, and of the second player after that."""


class Related(Game):
    """A game of related tasks. A subclass defines `spec`, with `series=True` and two players, and the methods below.

    `spec.stays` is the sentence of the prompts on what stays the same. `spec.perfect_information` must be False.
    """

    kinds_of_fact: tuple[str, ...]
    """Values of the hidden fact."""
    shows_place: ClassVar[bool] = False
    """True if the first observation also shows a place that depends on the fact, such as the furniture of a house."""
    solver: ClassVar[str] = ""
    """`module:function` that returns an `ExactSolution` for `mage headroom`, or empty if there is none."""

    @abstractmethod
    def errand(self, rng: np.random.Generator, number: int) -> Any:
        """Return task `number` of a meta-episode, drawn without repetition. `rng` is the same for all of its tasks."""

    @abstractmethod
    def begin(self, errand: Any, fact: str) -> State:
        """Return the first state of a task under a fact, of one player. Raises ValueError for an unknown fact.

        Its observation, task id and category must not depend on the fact, except for a place (`shows_place`).
        """

    @abstractmethod
    def describe(self, fact: str) -> str:
        """Return the fact as a sentence, for agents that are given it."""

    def describe_opponent(self, name: str) -> str:
        return self.describe(name.partition(":")[2])

    def series_state(self, rng: np.random.Generator, number: int) -> State:
        return UnstatedFact(self, self.errand(rng, number))

    def initial_state(self, rng: np.random.Generator) -> State:
        return self.series_state(rng, 0)


class UnstatedFact(State):
    """The start of a hand: the second player is to state the fact."""

    player = 1
    returns = (0.0, 0.0)

    def __init__(self, game: Related, errand: Any) -> None:
        self._game, self._errand = game, errand
        self.legal_actions: tuple[str, ...] = game.kinds_of_fact

    def observation(self, seat: int) -> str:
        return "State the hidden fact." if seat else WAITING

    def picture(self, seat: int) -> Picture:
        # The first view of the task does not depend on the fact.
        return self._game.begin(self._errand, self._game.kinds_of_fact[0]).picture(0)

    def after(self, action: str) -> RelatedState:
        try:
            return RelatedState(self._game.begin(self._errand, action), action)
        except ValueError as error:
            raise IllegalAction(action, self.legal_actions) from error


class RelatedState(State):
    """A state of the first player's own game, after the second player stated the fact."""

    def __init__(self, inner: State, fact: str) -> None:
        self.own, self._fact = inner, fact
        self.player: int | None = inner.player
        self.legal_actions: tuple[str, ...] = inner.legal_actions
        self.task_id, self.category = inner.task_id, inner.category

    @property
    def returns(self) -> tuple[float, ...]:
        return self.own.returns[0], 0.0

    def observation(self, seat: int) -> str:
        return f"You stated: {self._fact}. {WAITING}" if seat else self.own.observation(0)

    def information_state(self, seat: int) -> str:
        return self._fact if seat else self.own.information_state(0)

    def after(self, action: str) -> RelatedState:
        return RelatedState(self.own.after(action), self._fact)

    def after_illegal(self) -> RelatedState:
        return RelatedState(self.own.after_illegal(), self._fact)

    def canonical(self, action: str) -> str:
        return self.own.canonical(action)

    def won(self, seat: int) -> bool | None:
        return None if seat else self.own.won(0)

    def metrics(self) -> Mapping[str, float]:
        return self.own.metrics()

    def picture(self, seat: int) -> Picture:
        return self.own.picture(0)
