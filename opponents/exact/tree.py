"""What exact analysis needs of a game: its positions in order, a payoff, and policies with exact probabilities."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from mage_envs.core import ExactPolicy, Policy, TextGame, Turn
from mage_envs.games.table import GameNode
from opponents.registry import make_opponent

Roots = Sequence[tuple[float, GameNode]]
Objective = Literal["returns", "success"]
PAYOFFS: Mapping[str, Callable[[float], float]] = {
    "returns": lambda value: value,
    "success": lambda value: 1.0 if value > 0 else 0.0,
}
"""What is maximised: the game's own unit, or the probability of a positive return."""


class NotExact(ValueError):
    """A policy without `distribution`: exact values that involve it are not available."""


@runtime_checkable
class Walkable(Protocol):
    """A game whose whole tree is at hand."""

    def roots(self) -> Roots: ...


class Seated:
    """One policy per seat, as one."""

    def __init__(self, policies: Sequence[ExactPolicy]) -> None:
        self.policies = policies

    def reset(self, rng: np.random.Generator) -> None:
        for policy in self.policies:
            policy.reset(rng)

    def act(self, turn: Turn) -> str:
        return self.policies[turn.player].act(turn)

    def distribution(self, turn: Turn) -> Mapping[str, float]:
        """That of the policy in the mover's seat."""
        return self.policies[turn.player].distribution(turn)


def roots_of(game: TextGame) -> Roots:
    """The game's roots; raises `TypeError` for a game that is no tree at hand."""
    if not isinstance(game, Walkable):
        raise TypeError(f"Exact values need a game whose tree is at hand; {game.name} has no roots().")
    return game.roots()


def check_seat(game: TextGame, seat: int) -> None:
    """Raises `ValueError` unless the game has the seat."""
    if seat not in range(game.num_players):
        raise ValueError(f"{game.name} has the seats 0 to {game.num_players - 1}, got seat={seat!r}.")


def payoff_of(objective: Objective) -> Callable[[float], float]:
    """The payoff that `objective` names."""
    if objective not in PAYOFFS:
        raise ValueError(f"objective={objective!r} is unknown; choose 'returns' or 'success'.")
    return PAYOFFS[objective]


def exact_policy(spec: str | Policy, game: TextGame) -> ExactPolicy:
    """The policy that `spec` names, or itself; raises `NotExact` when it has no `distribution`."""
    policy = make_opponent(spec, game)
    if not isinstance(policy, ExactPolicy):
        label = spec if isinstance(spec, str) else type(spec).__name__
        raise NotExact(f"Opponent {label!r} has no distribution(turn): exact values against it are not available.")
    return policy


def positions(roots: Sequence[GameNode]) -> list[GameNode]:
    """Every position below the roots once, each before its children; positions may be shared."""
    seen: set[GameNode] = set()
    order: list[GameNode] = []

    def visit(node: GameNode) -> None:
        if node in seen:
            return
        seen.add(node)
        for child in node.children.values():
            visit(child)
        order.append(node)

    for root in roots:
        visit(root)
    order.reverse()
    return order
