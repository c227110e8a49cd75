"""Best response to a mixture of opponents in a game of perfect information, where the moves tell them apart.

The same board can be reached by moves that speak for different opponents, so the state is the position together
with the probability with which each opponent would have come there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mage_envs.core import ExactPolicy, Turn
from opponents.exact.tree import Node, Payoff

Reach = tuple[float, ...]
"""By opponent: its weight times the probability of all its moves so far."""


class HistoryPolicy:
    """Deterministic, by information state and history; knows only what it can meet against its mixture."""

    def __init__(self, moves: Mapping[tuple[str, tuple[str, ...]], str]) -> None:
        self._moves = moves

    def reset(self, rng: np.random.Generator) -> None: ...

    def act(self, turn: Turn) -> str:
        found = self.find(turn)
        if found is None:
            raise ValueError(f"This best response never meets the history {turn.history} against its pool.")
        return found

    def find(self, turn: Turn) -> str | None:
        """Return the action, or None for a history that its mixture cannot lead to."""
        return self._moves.get((turn.information_state, turn.history))

    def distribution(self, turn: Turn) -> dict[str, float]:
        """Probability 1 for the one action."""
        return {self.act(turn): 1.0}


class _Search:
    def __init__(self, opponents: Sequence[ExactPolicy], seat: int, payoff: Payoff) -> None:
        self.opponents = opponents
        self.seat = seat
        self.payoff = payoff
        self._values: dict[tuple[Node, Reach], float] = {}
        self._rows: dict[Node, list[tuple[str, Node, Reach]]] = {}

    def replies(self, node: Node, reach: Reach) -> list[tuple[str, Node, Reach]]:
        """The others' moves that somebody makes: action, next position, reach."""
        if node not in self._rows:
            rows = [opponent.distribution(node.turn()) for opponent in self.opponents]
            self._rows[node] = [(a, c, tuple(row.get(a, 0.0) for row in rows)) for a, c in node.children.items()]
        moves = []
        for action, child, chances in self._rows[node]:
            after = tuple(r * c for r, c in zip(reach, chances, strict=True))
            if any(after):
                moves.append((action, child, after))
        return moves

    def value(self, node: Node, reach: Reach) -> float:
        """The expected payoff, times the probability of coming here."""
        if node.player is None:
            return sum(reach) * self.payoff(node, self.seat)
        key = (node, reach)
        if key not in self._values:
            if node.player == self.seat:
                self._values[key] = max(self.value(child, reach) for child in node.children.values())
            else:
                self._values[key] = sum(self.value(child, after) for _, child, after in self.replies(node, reach))
        return self._values[key]

    def write(
        self,
        node: Node,
        reach: Reach,
        history: tuple[str, ...],
        moves: dict[tuple[str, tuple[str, ...]], str],
    ) -> None:
        """Adds the best moves from here on to `moves`."""
        if node.player is None:
            return
        if node.player == self.seat:
            best = max(node.children, key=lambda action: self.value(node.children[action], reach))
            moves[node.turn().information_state, history] = best
            self.write(node.children[best], reach, (*history, best), moves)
            return
        for action, child, after in self.replies(node, reach):
            self.write(child, after, (*history, action), moves)


def best_by_history(
    roots: Sequence[tuple[float, Node]],
    opponents: Sequence[ExactPolicy],
    weights: Sequence[float],
    seat: int,
    payoff: Payoff,
) -> tuple[float, HistoryPolicy]:
    """Value and policy of the best response to one of `opponents`, drawn with `weights` before the hand."""
    search = _Search(opponents, seat, payoff)
    moves: dict[tuple[str, tuple[str, ...]], str] = {}
    total = 0.0
    for chance, root in roots:
        reach = tuple(chance * weight for weight in weights)
        total += search.value(root, reach)
        search.write(root, reach, (), moves)
    return total, HistoryPolicy(moves)
