"""Best responses of one seat to known policies, or to a known mixture of policies.

The method is one backward pass over positions. At each of its information states, the responder plays the action with
the highest value. Positions are weighted by the probability that chance and the opponents reach them, the
counterfactual reach (Zinkevich et al. 2007, "Regret minimization in games with incomplete information").

Opponents must not depend on `Turn.history`. Then a position that several move orders reach has one value and is visited
once, which is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mage_envs.core import Game, Policy
from mage_envs.opponents.exact.tree import Objective, Payoff, check_seat, exact_policy, in_episode, payoff_of
from mage_envs.opponents.pools import PoolSpec, as_pool
from mage_envs.opponents.tabular import TabularPolicy
from mage_envs.tree import Node, pause_garbage_collection, tree_of

Vector = Sequence[float]
"""One number per opponent of the mixture, (N,). N is small, so lists are several times faster than arrays."""


class BestResponse(NamedTuple):
    """The value of a best response, with a deterministic policy that achieves it."""

    value: float
    """Value in the game's unit, or a probability with the objective `success`."""
    policy: Policy
    """Policy of the responding seat."""


def best_response(
    game: Game, opponent: str | Policy, seat: int, objective: Objective = "returns", episode: int = 0
) -> BestResponse:
    """Return the best response of a seat if one opponent plays all other seats.

    Args:
        game: Game with an enumerable tree.
        opponent: Name of the opponent, or a policy.
        objective: Payoff that is maximised, `returns` or `success`.
        episode: Index of the episode, for opponents that change between episodes.

    Raises:
        NotExact: If the opponent has no `distribution`, or remembers earlier hands.
        NotEnumerable: If the tree of the game cannot be enumerated.
        ValueError: If the seat or the objective is invalid.
    """
    return respond(game, [in_episode(exact_policy(opponent, game), episode)], [1.0], seat, objective)


def best_nonadaptive(
    game: Game, pool: PoolSpec, seat: int, objective: Objective = "returns", episode: int = 0
) -> BestResponse:
    """Return the best policy for one hand against an unknown opponent that is drawn from a pool.

    Within the hand the responder may infer its opponent. It remembers no earlier hand. In games of perfect information
    the policy reads `Turn.history`, because the order of moves distinguishes opponents.

    Args:
        game: Game with an enumerable tree.
        objective: Payoff that is maximised, `returns` or `success`.
        episode: Index of the episode, for opponents that change between episodes.

    Raises:
        NotExact: If an opponent has no `distribution`, or remembers earlier hands.
        NotEnumerable: If the tree of the game cannot be enumerated.
        ValueError: If the seat or the objective is invalid.
    """
    mixture = as_pool(pool)
    opponents = [in_episode(exact_policy(entry, game), episode) for entry in mixture.entries]
    return respond(game, opponents, mixture.weights, seat, objective)


def respond(
    game: Game, opponents: Sequence[Policy], weights: Sequence[float], seat: int, objective: Objective
) -> BestResponse:
    """Return the best response to one of several opponents, which is drawn before the hand.

    Args:
        game: Game with an enumerable tree.
        opponents: N policies, as they play in the episode in question.
        weights: Probability of each opponent, (N,).
        objective: Payoff that is maximised, `returns` or `success`.

    Raises:
        NotEnumerable: If the tree of the game cannot be enumerated.
        ValueError: If the seat or the objective is invalid, or a game with hidden information shares positions.
    """
    check_seat(game, seat)
    payoff = payoff_of(objective)
    roots, order, is_shared = tree_of(game)
    # Several orders of moves lead to a shared position. The order is evidence if information is hidden or if there are
    # several opponents. With one opponent and perfect information it is not.
    if is_shared:
        if not game.spec.perfect_information:
            raise ValueError(
                f"{game.title} shares positions although it has hidden information; exact values require a tree."
            )
        if len(opponents) > 1:
            # Imported here, because games with hidden information never need it.
            from mage_envs.opponents.exact.perfect_information import best_by_history

            return BestResponse(*best_by_history(roots, opponents, weights, seat, payoff))
    with pause_garbage_collection():
        # Reach carries the opponents' weights; values do not, so the total weights them again.
        search = _Search(order, opponents, seat, payoff)
        search.forward([([chance * weight for weight in weights], root) for chance, root in roots])
        value = sum(chance * float(np.dot(weights, search.value(root))) for chance, root in roots)
        return BestResponse(value, TabularPolicy({state: {search.choose(state): 1.0} for state in search.members}))


class _Search:
    """The search for one best response: reach forward, values backward."""

    def __init__(self, order: Sequence[Node], opponents: Sequence[Policy], seat: int, payoff: Payoff) -> None:
        self.order = order
        self.opponents = opponents
        self.seat = seat
        self.payoff = payoff
        self.reach: dict[Node, Vector] = dict.fromkeys(order, [0.0] * len(opponents))
        self.chances: dict[Node, dict[str, Vector]] = {}
        """Map from a position of another seat to each action's probability by opponent."""
        self.members: dict[str, list[Node]] = {}
        """Map from an information state of the responder to its positions."""
        self.state: dict[Node, str] = {}
        self._values: dict[Node, Vector] = {}
        self._choices: dict[str, str] = {}

    def forward(self, roots: list[tuple[Vector, Node]]) -> None:
        """Compute the counterfactual reach of every position: chance times the opponents' moves, without one's own."""
        for reach, root in roots:
            self.reach[root] = _sum(self.reach[root], reach)
        # In `order` every parent precedes its children, so a position's reach is complete before it is passed on.
        for node in self.order:
            if node.player is None:
                continue
            turn, reach = node.turn(), self.reach[node]
            if node.player == self.seat:
                self.state[node] = turn.information_state
                self.members.setdefault(turn.information_state, []).append(node)
                for child in node.children.values():
                    self.reach[child] = _sum(self.reach[child], reach)
                continue
            rows = [opponent.distribution(turn) for opponent in self.opponents]
            chances = self.chances[node] = {a: [row.get(a, 0.0) for row in rows] for a in node.children}
            for action, child in node.children.items():
                self.reach[child] = _plus_product(self.reach[child], reach, chances[action])

    def value(self, node: Node) -> Vector:
        """Return the responder's expected payoff from a position, by opponent."""
        if node not in self._values:
            self._values[node] = self._value(node)
        return self._values[node]

    def _value(self, node: Node) -> Vector:
        if node.player is None:
            return [self.payoff(node, self.seat)] * len(self.opponents)
        if node.player == self.seat:
            return self.value(node.children[self.choose(self.state[node])])
        total: Vector = [0.0] * len(self.opponents)
        for action, chance in self.chances[node].items():
            if any(chance):
                total = _plus_product(total, chance, self.value(node.children[action]))
        return total

    def choose(self, state: str) -> str:
        """Return the best action at an information state, the first if several are equal.

        If the opponents never reach the state, all its positions count equally.
        """
        if state not in self._choices:
            members = self.members[state]
            reached = any(any(self.reach[node]) for node in members)
            weights = [self.reach[node] if reached else [1.0] * len(self.opponents) for node in members]
            worth = {
                action: sum(
                    float(np.dot(w, self.value(node.children[action])))
                    for w, node in zip(weights, members, strict=True)
                )
                for action in members[0].children
            }
            self._choices[state] = max(worth, key=lambda action: worth[action])
        return self._choices[state]


def _sum(total: Vector, addend: Vector) -> Vector:
    return [a + b for a, b in zip(total, addend, strict=True)]


def _plus_product(total: Vector, weights: Vector, values: Vector) -> Vector:
    return [a + b * c for a, b, c in zip(total, weights, values, strict=True)]
