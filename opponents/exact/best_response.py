"""The best that one seat can do against known policies, or against a known mixture of them.

One backward pass over positions. At each of its information states the responder takes the action of the highest
value, positions weighed by the probability that chance and the opponents reach them (Zinkevich et al. 2007,
"Regret minimization in games with incomplete information": the counterfactual reach). Opponents must depend
on the turn without its history; then positions that several move orders share are walked once, which is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mage_envs.core import ExactPolicy, Game, Policy
from opponents.exact.by_history import best_by_history
from opponents.exact.tree import (
    Node,
    Objective,
    Payoff,
    check_seat,
    exact_policy,
    in_episode,
    payoff_of,
    positions,
    roots_of,
    share_positions,
)
from opponents.pools import PoolSpec, as_pool
from opponents.tabular import TabularPolicy

Vector = NDArray[np.float64]
"""One number per opponent of the mixture, (N,)."""


class BestResponse(NamedTuple):
    """The value of a best response, and a deterministic policy that reaches it."""

    value: float
    """In the game's unit, or a probability under the objective `success`."""
    policy: ExactPolicy


def best_response(
    game: Game, opponent: str | Policy, seat: int, objective: Objective = "returns", episode: int = 0
) -> BestResponse:
    """The best response of `seat` when `opponent` plays all other seats, as it plays in that episode.

    Raises `NotExact` for an opponent without `distribution` or with a memory, `NotEnumerable` for a game without a
    tree at hand.
    """
    return respond(game, [in_episode(exact_policy(opponent, game), episode)], [1.0], seat, objective)


def best_response_value(
    game: Game, opponent: str | Policy, seat: int, objective: Objective = "returns", episode: int = 0
) -> float:
    """The value of `best_response`."""
    return best_response(game, opponent, seat, objective, episode).value


def best_nonadaptive(
    game: Game, pool: PoolSpec, seat: int, objective: Objective = "returns", episode: int = 0
) -> BestResponse:
    """The best single policy against an opponent drawn from `pool` and not named, for one hand of that episode.

    Within the hand the responder may infer who plays; from hand to hand it learns nothing. In games of perfect
    information the policy reads `Turn.history`, because the order of moves tells opponents apart.
    """
    mixture = as_pool(pool)
    opponents = [in_episode(exact_policy(entry, game), episode) for entry in mixture.entries]
    return respond(game, opponents, mixture.weights, seat, objective)


def respond(
    game: Game, opponents: Sequence[ExactPolicy], weights: Sequence[float], seat: int, objective: Objective
) -> BestResponse:
    """Best response to one of `opponents`, drawn with `weights` before the hand."""
    check_seat(game, seat)
    payoff = payoff_of(objective)
    roots = roots_of(game)
    order = positions([node for _, node in roots])
    if share_positions(order):
        if not game.facts.perfect_information:
            raise ValueError(
                f"{game.facts.name} shares positions although it hides information; exact values need a tree."
            )
        if len(opponents) > 1:
            return BestResponse(*best_by_history(roots, opponents, weights, seat, payoff))
    search = _Search(order, opponents, seat, payoff)
    search.forward([(chance * np.array(weights, float), root) for chance, root in roots])
    value = sum(chance * float(np.dot(weights, search.value(root))) for chance, root in roots)
    return BestResponse(value, TabularPolicy({state: {search.choose(state): 1.0} for state in search.members}))


class _Search:
    """One best response: reach forward, values backward."""

    def __init__(self, order: list[Node], opponents: Sequence[ExactPolicy], seat: int, payoff: Payoff) -> None:
        self.order = order
        self.opponents = opponents
        self.seat = seat
        self.payoff = payoff
        self.reach: dict[Node, Vector] = {node: np.zeros(len(opponents)) for node in order}
        self.chances: dict[Node, dict[str, Vector]] = {}
        """At positions of others: action to its probability by opponent."""
        self.members: dict[str, list[Node]] = {}
        """Information state of the responder to its positions."""
        self.state: dict[Node, str] = {}
        self._values: dict[Node, Vector] = {}
        self._choices: dict[str, str] = {}

    def forward(self, roots: list[tuple[Vector, Node]]) -> None:
        """Reach of every position by chance and the opponents, the responder's moves counting 1."""
        for reach, root in roots:
            self.reach[root] = self.reach[root] + reach
        for node in self.order:
            if node.player is None:
                continue
            turn = node.turn()
            if node.player == self.seat:
                self.state[node] = turn.information_state
                self.members.setdefault(turn.information_state, []).append(node)
                for child in node.children.values():
                    self.reach[child] = self.reach[child] + self.reach[node]
                continue
            rows = [opponent.distribution(turn) for opponent in self.opponents]
            self.chances[node] = {a: np.array([row.get(a, 0.0) for row in rows]) for a in node.children}
            for action, child in node.children.items():
                self.reach[child] = self.reach[child] + self.reach[node] * self.chances[node][action]

    def value(self, node: Node) -> Vector:
        """The responder's expected payoff from `node` on, by opponent."""
        if node not in self._values:
            self._values[node] = self._value(node)
        return self._values[node]

    def _value(self, node: Node) -> Vector:
        if node.player is None:
            return np.full(len(self.opponents), self.payoff(node, self.seat))
        if node.player == self.seat:
            return self.value(node.children[self.choose(self.state[node])])
        total = np.zeros(len(self.opponents))
        for action, chance in self.chances[node].items():
            if chance.any():
                total += chance * self.value(node.children[action])
        return total

    def choose(self, state: str) -> str:
        """The best action at an information state, the first of equals; all its positions alike if none is reached."""
        if state not in self._choices:
            members = self.members[state]
            reached = any(self.reach[node].any() for node in members)
            weights = [self.reach[node] if reached else np.ones(len(self.opponents)) for node in members]
            worth = {
                action: sum(
                    float(w @ self.value(node.children[action])) for w, node in zip(weights, members, strict=True)
                )
                for action in members[0].children
            }
            self._choices[state] = max(worth, key=lambda action: worth[action])
        return self._choices[state]
