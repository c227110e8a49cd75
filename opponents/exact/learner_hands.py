"""One hand from the learner's view: its decisions and its possible endings, against several opponents.

All probabilities are counterfactual: they are products of chance and the opponents' moves, without the learner's own.
The view of a finished hand has a likelihood for each opponent. Hands with proportional likelihoods are the same piece
of evidence, because they lead to the same belief.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mage_envs.core import Policy, is_state_policy
from mage_envs.opponents.exact.tree import NotExact, Payoff
from mage_envs.tree import Node, positions, share_positions

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

DECISIONS = 50_000
"""Limit on the learner's decisions in one hand; a decision includes its whole history."""
_TOO_MANY = f"The learner has more than {DECISIONS:,} decisions in a hand: too many to go through."


class TooManyStates(ValueError):
    """A problem with too many states or decisions."""


class Branch(NamedTuple):
    """All continuations of one action of the learner, or of the deal."""

    outcomes: Mapping[str, int]
    """Map from the learner's view of a finished hand to the index of the ending."""
    decisions: Mapping[str, Mapping[str, Branch]]
    """Map from an information state to actions to their branches."""


class LearnerHand(NamedTuple):
    """A whole hand in one seat, with M endings that the learner can distinguish and E pieces of evidence."""

    root: Branch
    """Branch of the deal."""
    evidence: Floats
    """Relative likelihood of each opponent for each piece of evidence, (E, N); distinct rows with the maximum 1."""
    tells: Places
    """Index of each ending's piece of evidence, (M,)."""
    weight: Floats
    """Weight of each ending, (M,). Weight times evidence is the ending's probability for each opponent."""
    payoff: Floats
    """Expected payoff for each opponent, times the probability of the ending, (M, N)."""
    ends: Sequence[Node]
    """One position of each ending, (M,)."""
    memories: Sequence[tuple[Hashable, ...]]
    """Memory of each opponent after each piece of evidence, (E,); all of them empty if no opponent learns."""


class HandMemory(NamedTuple):
    """Memories of N opponents after a hand."""

    step: Callable[[int, Node], Hashable]
    """Function from the index of an opponent and the end of a hand to its memory."""
    can_follow: Callable[[NDArray[np.bool_]], NDArray[np.bool_]]
    """Function from the opponents that can have played a hand to those that can play later ones, (N,) each."""


def hand_of(
    roots: Sequence[tuple[float | Floats, Node]],
    opponents: Sequence[Policy | None],
    seat: int,
    payoff: Payoff,
    memory: HandMemory | None = None,
) -> LearnerHand:
    """Return the hand of a learner against one of several opponents, which plays all other seats.

    Args:
        roots: First positions with their probabilities, which may differ by opponent, (N,).
        opponents: N policies. None is an opponent that is excluded.
        payoff: Payoff at the end of a hand.
        memory: Memories of the opponents after the hand. Endings with different memories are different evidence.

    Raises:
        NotExact: If a memory depends on what only the opponent sees.
        TooManyStates: If the learner has more than `DECISIONS` decisions.
    """
    # A cheap bound, counted on the shared positions, refuses large games before the walk over all histories starts.
    order = positions([node for _, node in roots])
    if (
        share_positions(order)
        and max(_count_decisions(roots, order, opponent, seat) for opponent in opponents if opponent) > DECISIONS
    ):
        raise TooManyStates(_TOO_MANY)
    builder = _Builder(opponents, seat, payoff)
    able = np.array([float(opponent is not None) for opponent in opponents])
    ways = [(node, builder.extend(-1, builder.row((chance * able).tolist()))) for chance, node in roots]
    root = builder.branch([(node, way) for node, way in ways if way >= 0])
    return builder.hand(root, memory)


def _count_decisions(
    roots: Sequence[tuple[float | Floats, Node]], order: Sequence[Node], opponent: Policy, seat: int
) -> int:
    """Return a lower bound of the learner's decisions against a pool with this opponent.

    It is the number of histories with positive probability at which the learner is to move. The game must have perfect
    information.
    """
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
    """A walk over the histories of a hand, which sorts them by the learner's views.

    Probabilities are computed at the end, for all histories together, in numpy. During the walk a history ("way") is an
    index, and the opponents that can have played it are a set of bits.
    """

    def __init__(self, opponents: Sequence[Policy | None], seat: int, payoff: Payoff) -> None:
        self.opponents, self.seat, self.payoff = opponents, seat, payoff
        self._by_state = all(opponent is None or is_state_policy(opponent) for opponent in opponents)
        self._decisions = 0
        self._rows: dict[tuple[float, ...], tuple[int, int]] = {}
        """Map from a move's probabilities by opponent to (index, set of the opponents that may play it)."""
        self._replies: dict[object, list[tuple[int, int]]] = {}
        """Map from the mover's knowledge to the row of each action."""
        self._parents: list[int] = []
        """Parent of each way; -1 at the roots."""
        self._row: list[int] = []
        """Row of probabilities of each way's last move."""
        self._possible: list[int] = []
        """Set of the opponents that can have played each way."""
        self._ends: list[list[tuple[Node, int]]] = []
        """Positions of each ending, with the ways to them."""

    def row(self, chances: Sequence[float]) -> tuple[int, int]:
        """Return the index of a row of probabilities, and the set of the opponents with a positive one."""
        key = tuple(chances)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = len(self._rows), sum(1 << i for i, chance in enumerate(key) if chance > 0)
        return row

    def extend(self, way: int, row: tuple[int, int]) -> int:
        """Return the index of the way that extends `way` by a move, or -1 if no opponent can play it."""
        number, able = row
        possible_opponents = able if way < 0 else able & self._possible[way]
        if not possible_opponents:
            return -1
        self._parents.append(way)
        self._row.append(number)
        self._possible.append(possible_opponents)
        return len(self._possible) - 1

    def branch(self, histories: list[tuple[Node, int]]) -> Branch:
        """Return the branch after histories, (position, way), that the learner cannot distinguish.

        Raises TooManyStates if the hand has more than `DECISIONS` decisions.
        """
        endings: dict[str, list[tuple[Node, int]]] = {}
        waiting: dict[str, list[tuple[Node, int]]] = {}
        while histories:
            node, way = history = histories.pop()
            if node.player is None:
                endings.setdefault(node.view(self.seat), []).append(history)
            elif node.player == self.seat:
                waiting.setdefault(node.information_state, []).append(history)
            else:
                for child, row in zip(node.children.values(), self._moves(node), strict=True):
                    next_way = self.extend(way, row)
                    if next_way >= 0:
                        histories.append((child, next_way))
        self._decisions += len(waiting)
        if self._decisions > DECISIONS:
            raise TooManyStates(_TOO_MANY)
        # Sorted, so that the numbering does not depend on the order of the walk.
        outcomes = {view: len(self._ends) + index for index, view in enumerate(sorted(endings))}
        self._ends += [endings[view] for view in outcomes]
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
        # If every opponent depends on its information state alone, equal states share their probabilities.
        key = (node.player, node.information_state) if self._by_state else node
        replies = self._replies.get(key)
        if replies is None:
            rows = [{} if opponent is None else opponent.distribution(node.turn()) for opponent in self.opponents]
            replies = [self.row([row.get(action, 0.0) for row in rows]) for action in node.children]
            self._replies[key] = replies
        return replies

    def hand(self, root: Branch, memory: HandMemory | None) -> LearnerHand:
        """Return the hand below a root branch. Raises NotExact if a memory is not public."""
        reach = self._reach()
        ways = [way for end in self._ends for _, way in end]
        end_payoffs = [self.payoff(node, self.seat) for end in self._ends for node, _ in end]
        starts = np.cumsum([0, *map(len, self._ends)])[:-1]
        total = np.add.reduceat(reach[ways], starts)
        payoff = np.add.reduceat(reach[ways] * np.array(end_payoffs)[:, None], starts)
        # Dividing by the maximum makes proportional likelihoods equal; rounding removes differences of the last bits.
        weight = total.max(axis=1)
        rows = total / weight[:, None]
        keys = np.round(rows, 12)
        memories: list[tuple[Hashable, ...]] = [()] * len(rows)
        if memory is not None:
            memories = self._memories(memory)
            numbers = {memory_key: number for number, memory_key in enumerate(dict.fromkeys(memories))}
            keys = np.column_stack([keys, [numbers[memory_key] for memory_key in memories]])
        _, first_rows, tells = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        # `np.unique` sorts by value; number the evidence in the order of the endings instead.
        order = np.argsort(first_rows)
        first_rows = first_rows[order]
        return LearnerHand(
            root=root,
            evidence=rows[first_rows],
            tells=np.argsort(order)[tells.reshape(-1)],
            weight=weight,
            payoff=payoff,
            ends=[end[0][0] for end in self._ends],
            memories=[memories[row] for row in first_rows],
        )

    def _memories(self, memory: HandMemory) -> list[tuple[Hashable, ...]]:
        """Return the memory of each opponent after each ending, None if the opponent can play no later hand."""
        count = len(self.opponents)
        followers: dict[int, list[int]] = {}
        """Map from the set of the opponents that can have played a way to those that can play later hands."""
        all_memories = []
        for end in self._ends:
            end_memories: list[Hashable] = [None] * count
            for node, way in end:
                possible = self._possible[way]
                if possible not in followers:
                    mask = np.array([possible >> index & 1 for index in range(count)], bool)
                    followers[possible] = np.flatnonzero(memory.can_follow(mask)).tolist()
                for index in followers[possible]:
                    value = memory.step(index, node)
                    # The learner cannot distinguish the positions of an ending, so all must leave one memory.
                    if end_memories[index] not in (None, value):
                        raise NotExact(
                            f"The memory of opponent {index + 1} of the pool depends on what only that opponent sees. "
                            "Exact values require a memory of what both players see."
                        )
                    end_memories[index] = value
            all_memories.append(tuple(end_memories))
        return all_memories

    def _reach(self) -> Floats:
        """Return the probability of each way by opponent, (ways, N)."""
        # Vectorised by depth: the probabilities of all ways with d moves follow from those with d - 1 moves.
        table = np.array(list(self._rows))
        depths: list[int] = []
        for way in self._parents:
            depths.append(0 if way < 0 else depths[way] + 1)
        reach, parents = table[self._row], np.array(self._parents)
        by_depth = np.argsort(depths, kind="stable")
        for depth, places in groupby(by_depth.tolist(), key=depths.__getitem__):
            if depth:
                mine = list(places)
                reach[mine] *= reach[parents[mine]]
        return reach
