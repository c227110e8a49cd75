"""Best response to a mixture of opponents in a game of perfect information, in which moves distinguish opponents.

Different moves to the same board may be evidence for different opponents. The state of the search is therefore the
position together with each opponent's probability of reaching it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mage_envs.core import Policy, Turn
from mage_envs.opponents.exact.tree import Payoff
from mage_envs.tree import Node

Reach = tuple[float, ...]
"""For each opponent, its weight times the probability of its moves so far."""


class HistoryPolicy(Policy):
    """A deterministic policy by information state and history, defined only for histories that its mixture reaches."""

    def __init__(self, moves: Mapping[tuple[str, tuple[str, ...]], str]) -> None:
        self._moves = moves

    def reset(self, rng: np.random.Generator) -> None: ...

    def act(self, turn: Turn) -> str:
        action = self.find(turn)
        if action is None:
            raise ValueError(f"This best response never meets the history {turn.history} against its pool.")
        return action

    def find(self, turn: Turn) -> str | None:
        """Return the action, or None if the mixture cannot produce the history."""
        return self._moves.get((turn.information_state, turn.history))

    def distribution(self, turn: Turn) -> dict[str, float]:
        """Return probability 1 for the one action."""
        return {self.act(turn): 1.0}


class _Search:
    """The search for the best response over (position, reach)."""

    def __init__(self, opponents: Sequence[Policy], seat: int, payoff: Payoff) -> None:
        self.opponents = opponents
        self.seat = seat
        self.payoff = payoff
        self._values: dict[tuple[Node, Reach], float] = {}
        self._rows: dict[Node, list[tuple[str, Node, Reach]]] = {}

    def replies(self, node: Node, reach: Reach) -> list[tuple[str, Node, Reach]]:
        """Return (action, next position, reach) of the moves that at least one opponent may make."""
        # The distributions depend on the position alone, while the same position occurs with many reaches.
        if node not in self._rows:
            rows = [opponent.distribution(node.turn()) for opponent in self.opponents]
            self._rows[node] = [(a, c, tuple(row.get(a, 0.0) for row in rows)) for a, c in node.children.items()]
        moves = []
        for action, child, chances in self._rows[node]:
            next_reach = tuple(r * c for r, c in zip(reach, chances, strict=True))
            if any(next_reach):
                moves.append((action, child, next_reach))
        return moves

    def value(self, node: Node, reach: Reach) -> float:
        """Return the expected payoff, times the probability of reaching the state."""
        if node.player is None:
            return sum(reach) * self.payoff(node, self.seat)
        key = (node, reach)
        if key not in self._values:
            if node.player == self.seat:
                self._values[key] = max(self.value(child, reach) for child in node.children.values())
            else:
                self._values[key] = sum(
                    self.value(child, next_reach) for _, child, next_reach in self.replies(node, reach)
                )
        return self._values[key]

    def write(
        self,
        node: Node,
        reach: Reach,
        history: tuple[str, ...],
        moves: dict[tuple[str, tuple[str, ...]], str],
    ) -> None:
        """Add the best moves from this state on to `moves`."""
        if node.player is None:
            return
        if node.player == self.seat:
            best = max(node.children, key=lambda action: self.value(node.children[action], reach))
            moves[node.turn().information_state, history] = best
            # Only the chosen move continues, so the table holds only histories that the policy itself can produce.
            self.write(node.children[best], reach, (*history, best), moves)
            return
        for action, child, next_reach in self.replies(node, reach):
            self.write(child, next_reach, (*history, action), moves)


def best_by_history(
    roots: Sequence[tuple[float, Node]],
    opponents: Sequence[Policy],
    weights: Sequence[float],
    seat: int,
    payoff: Payoff,
) -> tuple[float, HistoryPolicy]:
    """Return value and policy of the best response to one of several opponents, drawn before the hand.

    Args:
        roots: First positions with their probabilities.
        weights: Probability of each opponent, (N,).
        payoff: Payoff at the end of a hand.
    """
    search = _Search(opponents, seat, payoff)
    moves: dict[tuple[str, tuple[str, ...]], str] = {}
    total = 0.0
    for chance, root in roots:
        reach = tuple(chance * weight for weight in weights)
        total += search.value(root, reach)
        search.write(root, reach, (), moves)
    return total, HistoryPolicy(moves)
