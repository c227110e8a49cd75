"""One hand as the learner lives it: its decisions and what it may have seen at the end, against several opponents.

All probabilities are of chance and the opponents alone, the learner's own moves counting 1. What the learner sees
of a hand tells how likely each opponent was to bring it about; two hands that speak alike for all opponents are the
same piece of evidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mage_envs.core import ExactPolicy
from opponents.exact.tree import Node, Payoff, positions, share_positions

Vector = NDArray[np.float64]
"""One number per opponent, (N,)."""


DECISIONS = 50_000
"""Most decisions, each with all that led to it, of a hand that is analysed."""
_TOO_MANY = f"The learner has more than {DECISIONS:,} decisions in a hand: too many to go through."


class TooManyStates(ValueError):
    """A problem above the limit of states."""


class Ending(NamedTuple):
    """Something that the learner may have seen when the hand is over."""

    evidence: int
    """Index into `LivedHand.evidence`."""
    weight: float
    """The outcome's probabilities by opponent are `weight` times that evidence."""
    payoff: Vector
    """Expected payoff by opponent, times the probability of the outcome."""


class Branch(NamedTuple):
    """What can follow one action of the learner (or the deal)."""

    outcomes: Mapping[str, Ending]
    """By the learner's last view of the hand."""
    decisions: Mapping[str, Mapping[str, Branch]]
    """Information state to action to what follows."""


class LivedHand(NamedTuple):
    """All of a hand in one seat."""

    root: Branch
    evidence: Vector
    """(E, N): each row's largest entry is 1; rows differ."""


def hand_of(
    roots: Sequence[tuple[float, Node]],
    opponents: Sequence[ExactPolicy],
    seat: int,
    payoff: Payoff,
) -> LivedHand:
    """The hand of a game with these roots, for the learner in `seat` and one of `opponents` in all others."""
    builder = _Builder(opponents, seat, payoff)
    order = positions([node for _, node in roots])
    if share_positions(order) and max(_count_decisions(roots, order, one, seat) for one in opponents) > DECISIONS:
        raise TooManyStates(_TOO_MANY)
    root = builder.branch([(chance * np.ones(len(opponents)), node) for chance, node in roots])
    return LivedHand(root, np.array([row for _, row in builder.rows.values()]).reshape(-1, len(opponents)))


def _count_decisions(
    roots: Sequence[tuple[float, Node]], order: Sequence[Node], opponent: ExactPolicy, seat: int
) -> int:
    """How often the learner may be to move, in a game that hides nothing, against that opponent: at least as many
    decisions, each with all that led to it, has a hand against it and others."""
    ways = dict.fromkeys(order, 0)
    for _, root in roots:
        ways[root] += 1
    for node in order:
        moves = node.children
        if node.player is not None and node.player != seat:
            row = opponent.distribution(node.turn())
            moves = {action: child for action, child in moves.items() if row.get(action, 0.0) > 0}
        for child in moves.values():
            ways[child] += ways[node]
    return sum(ways[node] for node in order if node.player == seat)


class _Builder:
    def __init__(self, opponents: Sequence[ExactPolicy], seat: int, payoff: Payoff) -> None:
        self.opponents, self.seat, self.payoff = opponents, seat, payoff
        self.rows: dict[tuple[float, ...], tuple[int, Vector]] = {}
        """Rounded evidence to its index and the evidence itself."""
        self._decisions = 0

    def branch(self, histories: list[tuple[Vector, Node]]) -> Branch:
        """What follows for a learner that cannot tell `histories` (reach by opponent, position) apart."""
        ended: dict[str, list[tuple[Vector, Node]]] = {}
        waiting: dict[str, list[tuple[Vector, Node]]] = {}
        while histories:
            reach, node = histories.pop()
            if node.player is None:
                ended.setdefault(node.view(self.seat), []).append((reach, node))
            elif node.player == self.seat:
                waiting.setdefault(node.turn().information_state, []).append((reach, node))
            else:
                histories += self._replies(reach, node)
        self._decisions += len(waiting)
        if self._decisions > DECISIONS:
            raise TooManyStates(_TOO_MANY)
        return Branch(
            {view: self._outcome(ended[view]) for view in sorted(ended)},
            {
                state: {
                    action: self.branch([(reach, node.children[action]) for reach, node in waiting[state]])
                    for action in waiting[state][0][1].children
                }
                for state in sorted(waiting)
            },
        )

    def _replies(self, reach: Vector, node: Node) -> list[tuple[Vector, Node]]:
        turn = node.turn()
        rows = [opponent.distribution(turn) for opponent in self.opponents]
        replies = []
        for action, child in node.children.items():
            after = reach * np.array([row.get(action, 0.0) for row in rows])
            if after.any():
                replies.append((after, child))
        return replies

    def _outcome(self, ends: list[tuple[Vector, Node]]) -> Ending:
        total = np.sum([reach for reach, _ in ends], axis=0)
        payoff = np.sum([reach * self.payoff(node, self.seat) for reach, node in ends], axis=0)
        weight = float(total.max())
        row = total / weight
        key = tuple(np.round(row, 12).tolist())
        index, _ = self.rows.setdefault(key, (len(self.rows), row))
        return Ending(index, weight, payoff)
