"""Series of tasks without repetition, in a form that the exact solvers know: opponents and independent hands.

A third seat draws the task, in a first move whose result the learner sees. The opponent plays both other seats, so an
opponent is a pair of a policy and an order of the tasks, and every order is equally likely.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import permutations
from math import perm

import numpy as np

from mage_envs.core import Game, GameSpec, NotEnumerable, Policy, State, Turn
from mage_envs.games.table_game import TableSeries
from mage_envs.opponents.exact.learner_hands import TooManyStates
from mage_envs.opponents.exact.tree import exact_policy
from mage_envs.opponents.pools import OpponentPool

ORDERS = 5_000
"""Maximum number of pairs of a policy and an order of the tasks."""
_DRAW = "draw a task"
"""Information state of the seat that draws, at the first move."""
_DRAWER = 2
"""Seat that draws. It is not the second player's, who need not see what the draw hid from it."""


class DrawState(State):
    """The start of a hand: one of the first states of all tasks is drawn."""

    player = _DRAWER
    returns = (0.0, 0.0)

    def __init__(self, firsts: Sequence[State]) -> None:
        self._firsts = firsts
        self.legal_actions: tuple[str, ...] = tuple(map(str, range(len(firsts))))

    def observation(self, seat: int) -> str:
        return _DRAW if seat == _DRAWER else ""

    def after(self, action: str) -> State:
        return self._firsts[int(action)]


class DrawnSeries(Game):
    """A series whose tasks are drawn by a seat of its own."""

    def __init__(self, spec: GameSpec, first_state: DrawState) -> None:
        self.spec, self._first = spec, first_state

    def initial_state(self, rng: np.random.Generator) -> State:
        return self._first

    def initial_states(self) -> Sequence[tuple[float, State]]:
        return [(1.0, self._first)]


# Cached, because equal first states must be one object for the tree and for the solutions that are kept.
@lru_cache(maxsize=8)
def _first_of(firsts: tuple[State, ...]) -> DrawState:
    return DrawState(firsts)


class OrderedOpponent(Policy):
    """A policy that also draws the task of each episode, in a fixed order."""

    def __init__(self, policy: Policy, rows: Sequence[Mapping[str, float]]) -> None:
        """Create an opponent.

        Args:
            policy: Policy of the tasks themselves.
            rows: For each episode, the probabilities of the first states of its task.
        """
        self._policy, self._rows = policy, rows

    def reset(self, rng: np.random.Generator) -> None:
        self._policy.reset(rng)

    def act(self, turn: Turn) -> str:
        raise TypeError("An opponent with an order of tasks is only for exact values.")

    def distribution(self, turn: Turn) -> Mapping[str, float]:
        """Return the draw of the task in this episode, or the policy's own distribution."""
        return self._rows[turn.episode] if turn.information_state == _DRAW else self._policy.distribution(turn)


def order_tasks(game: Game, pool: OpponentPool, orders: Sequence[Sequence[int]]) -> tuple[Game, OpponentPool]:
    """Return a series whose tasks come in one of some orders, which are equally likely.

    Args:
        game: Series of tasks from a table.
        orders: Each the indices of the tasks of all episodes.

    Returns:
        The game in which a third seat draws the tasks, and its opponents.

    Raises:
        NotEnumerable: If the tasks are not from a table.
    """
    if not isinstance(game, TableSeries):
        raise NotEnumerable(f"{game.spec.name} is not a series of tasks from a table.")
    rows: list[Mapping[str, float]] = []
    firsts: list[State] = []
    for task in game.tasks:
        rows.append({str(len(firsts) + index): chance for index, (chance, _) in enumerate(task)})
        firsts += [state for _, state in task]
    series = DrawnSeries(game.spec, _first_of(tuple(firsts)))
    opponents = [
        (OrderedOpponent(exact_policy(entry, game), [rows[task] for task in order]), weight)
        for entry, weight in zip(pool.entries, pool.weights, strict=True)
        for order in orders
    ]
    return series, OpponentPool(opponents)


def without_repetition(game: Game, pool: OpponentPool, episodes: int, hands: int) -> tuple[Game, OpponentPool]:
    """Return a series with every order of its tasks.

    Args:
        game: Series of tasks from a table.
        hands: Hands per episode.

    Raises:
        NotEnumerable: If the tasks are not from a table.
        TooManyStates: If there are too many orders.
    """
    count = len(game.tasks) if isinstance(game, TableSeries) else episodes
    if hands > 1 or episodes > count or len(pool) * perm(count, episodes) > ORDERS:
        raise TooManyStates(
            f"{game.spec.name} has {count} tasks, and {episodes} episodes of {hands} hands without repetition have too "
            "many orders. Use fewer episodes, one hand each, or fewer tasks."
        )
    return order_tasks(game, pool, list(permutations(range(count), episodes)))
