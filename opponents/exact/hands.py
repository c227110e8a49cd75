"""One hand as the learner lives it: its decisions and what it may have seen at the end, against several opponents.

All probabilities are of chance and the opponents alone, the learner's own moves counting 1. What the learner sees
of a hand tells how likely each opponent was to bring it about; two hands that speak alike for all opponents are the
same piece of evidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mage_envs.core import ExactPolicy, is_state_policy
from opponents.exact.tree import Node, Payoff, positions, share_positions

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

DECISIONS = 50_000
"""Most decisions, each with all that led to it, of a hand that is analysed."""
_TOO_MANY = f"The learner has more than {DECISIONS:,} decisions in a hand: too many to go through."


class TooManyStates(ValueError):
    """A problem above the limit of states."""


class Branch(NamedTuple):
    """What can follow one action of the learner (or the deal)."""

    outcomes: Mapping[str, int]
    """By the learner's last view of the hand, the number of the ending."""
    decisions: Mapping[str, Mapping[str, Branch]]
    """Information state to action to what follows."""


class LivedHand(NamedTuple):
    """All of a hand in one seat, with M endings that the learner can tell apart and E pieces of evidence."""

    root: Branch
    evidence: Floats
    """(E, N): each row's largest entry is 1; rows differ."""
    tells: Places
    """(M,): the piece of evidence that an ending is."""
    weight: Floats
    """(M,): an ending's probabilities by opponent are its weight times its evidence."""
    payoff: Floats
    """(M, N): expected payoff by opponent, times the probability of the ending."""


def hand_of(
    roots: Sequence[tuple[float, Node]],
    opponents: Sequence[ExactPolicy],
    seat: int,
    payoff: Payoff,
) -> LivedHand:
    """The hand of a game with these roots, for the learner in `seat` and one of `opponents` in all others."""
    order = positions([node for _, node in roots])
    if share_positions(order) and max(_count_decisions(roots, order, one, seat) for one in opponents) > DECISIONS:
        raise TooManyStates(_TOO_MANY)
    builder = _Builder(opponents, seat, payoff)
    first = [(node, builder.after(-1, builder.row([chance] * len(opponents)))) for chance, node in roots]
    root = builder.branch(first)
    evidence, tells, weight, payoff_of = builder.endings()
    return LivedHand(root=root, evidence=evidence, tells=tells, weight=weight, payoff=payoff_of)


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
    """Goes through the hand once, sorting what the learner can tell apart; the numbers are worked out at the end, for
    all endings together. Until then a way to a position is its number, whom it speaks for is a set of bits."""

    def __init__(self, opponents: Sequence[ExactPolicy], seat: int, payoff: Payoff) -> None:
        self.opponents, self.seat, self.payoff = opponents, seat, payoff
        self._by_state = all(is_state_policy(opponent) for opponent in opponents)
        self._decisions = 0
        self._rows: dict[tuple[float, ...], tuple[int, int]] = {}
        """Probabilities of a move by opponent to its number, and the set of those who may make it."""
        self._replies: dict[object, list[tuple[int, int]]] = {}
        """By what the mover knows, of each action."""
        self._before: list[int] = []
        """Of each way, the one that it goes on from (-1 at the roots), ..."""
        self._row: list[int] = []
        """... with a move of these probabilities, ..."""
        self._for: list[int] = []
        """... and who of the opponents can have come so far."""
        self._ends: list[list[tuple[Node, int]]] = []
        """Of each ending, the positions and the ways to them."""

    def row(self, chances: Sequence[float]) -> tuple[int, int]:
        """The number of these probabilities, and the set of opponents that have any."""
        key = tuple(chances)
        found = self._rows.get(key)
        if found is None:
            found = self._rows[key] = len(self._rows), sum(1 << i for i, chance in enumerate(key) if chance > 0)
        return found

    def after(self, way: int, row: tuple[int, int]) -> int:
        """The number of the way on from `way`; -1 where no opponent goes it."""
        number, able = row
        left = able if way < 0 else able & self._for[way]
        if not left:
            return -1
        self._before.append(way)
        self._row.append(number)
        self._for.append(left)
        return len(self._for) - 1

    def branch(self, histories: list[tuple[Node, int]]) -> Branch:
        """What follows for a learner that cannot tell `histories` (position, way) apart."""
        ended: dict[str, list[tuple[Node, int]]] = {}
        waiting: dict[str, list[tuple[Node, int]]] = {}
        while histories:
            node, way = history = histories.pop()
            if node.player is None:
                ended.setdefault(node.view(self.seat), []).append(history)
            elif node.player == self.seat:
                waiting.setdefault(node.information_state, []).append(history)
            else:
                for child, row in zip(node.children.values(), self._moves(node), strict=True):
                    on = self.after(way, row)
                    if on >= 0:
                        histories.append((child, on))
        self._decisions += len(waiting)
        if self._decisions > DECISIONS:
            raise TooManyStates(_TOO_MANY)
        outcomes = {view: len(self._ends) + place for place, view in enumerate(sorted(ended))}
        self._ends += [ended[view] for view in outcomes]
        return Branch(
            outcomes,
            {
                state: {
                    action: self.branch([(node.children[action], way) for node, way in waiting[state]])
                    for action in waiting[state][0][0].children
                }
                for state in sorted(waiting)
            },
        )

    def _moves(self, node: Node) -> list[tuple[int, int]]:
        key = (node.player, node.information_state) if self._by_state else node
        found = self._replies.get(key)
        if found is None:
            rows = [opponent.distribution(node.turn()) for opponent in self.opponents]
            found = [self.row([row.get(action, 0.0) for row in rows]) for action in node.children]
            self._replies[key] = found
        return found

    def endings(self) -> tuple[Floats, Places, Floats, Floats]:
        """Evidence, and of each ending which it is, its weight and payoff: as in `LivedHand`."""
        reach = self._reach()
        ways = [way for end in self._ends for _, way in end]
        paid = [self.payoff(node, self.seat) for end in self._ends for node, _ in end]
        starts = np.cumsum([0, *map(len, self._ends)])[:-1]
        total = np.add.reduceat(reach[ways], starts)
        payoff = np.add.reduceat(reach[ways] * np.array(paid)[:, None], starts)
        weight = total.max(axis=1)
        rows = total / weight[:, None]
        _, first, tells = np.unique(np.round(rows, 12), axis=0, return_index=True, return_inverse=True)
        order = np.argsort(first)  # evidence is numbered as it is met
        return rows[first[order]], np.argsort(order)[tells.reshape(-1)], weight, payoff

    def _reach(self) -> Floats:
        """(ways, N): the probability of each way by opponent, those before it first."""
        table = np.array(list(self._rows))
        depths: list[int] = []
        for way in self._before:
            depths.append(0 if way < 0 else depths[way] + 1)
        reach, before = table[self._row], np.array(self._before)
        by_depth = np.argsort(depths, kind="stable")
        for depth, places in groupby(by_depth.tolist(), key=depths.__getitem__):
            if depth:
                mine = list(places)
                reach[mine] *= reach[before[mine]]
        return reach
