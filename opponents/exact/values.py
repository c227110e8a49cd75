"""Exact values of policies against each other, and how far they are from best responses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mage_envs.core import ExactPolicy, Game, NotEnumerable, Policy
from opponents.exact.best_response import best_response_value, respond
from opponents.exact.by_history import HistoryPolicy
from opponents.exact.tree import BySeat, Node, NotExact, Objective, exact_policy, payoff_of, positions, roots_of


def policy_value(game: Game, policies: Sequence[str | Policy], objective: Objective = "returns") -> tuple[float, ...]:
    """Each player's expected payoff when `policies[i]` plays seat i.

    Raises `NotExact` for a policy without `distribution`, `NotEnumerable` for a game without a tree at hand.
    """
    table = _seated(game, policies)
    payoff = payoff_of(objective)
    roots = roots_of(game)
    order = positions([node for _, node in roots])
    reach: dict[Node, float] = dict.fromkeys(order, 0.0)
    for chance, root in roots:
        reach[root] += chance
    totals = [0.0] * game.facts.players
    for node in order:
        if node.player is None:
            for player in range(len(totals)):
                totals[player] += reach[node] * payoff(node, player)
        elif reach[node] > 0:
            for action, probability in table.distribution(node.turn()).items():
                reach[node.children[action]] += reach[node] * probability
    return tuple(totals)


def value_of_response(
    game: Game,
    response: ExactPolicy,
    opponents: Sequence[ExactPolicy],
    weights: Sequence[float],
    seat: int,
    objective: Objective,
) -> float:
    """Return what `seat` earns by a response against one of `opponents`, which need not be those it was found for.

    Where a response by history does not know the history, it takes the first action.
    """
    payoff = payoff_of(objective)

    def value(node: Node, history: tuple[str, ...], reach: NDArray[np.float64]) -> float:
        if node.player is None:
            return float(reach.sum()) * payoff(node, seat)
        turn = node.turn()._replace(history=history)
        if node.player == seat:
            known = response.find(turn) if isinstance(response, HistoryPolicy) else response.act(turn)
            action = node.legal[0] if known is None else known
            return value(node.children[action], (*history, action), reach)
        rows = [opponent.distribution(turn) for opponent in opponents]
        total = 0.0
        for action, child in node.children.items():
            after = reach * [row.get(action, 0.0) for row in rows]
            if after.any():
                total += value(child, (*history, action), after)
        return total

    return sum(value(root, (), chance * np.array(weights, float)) for chance, root in roots_of(game))


def nash_conv(game: Game, policies: Sequence[str | Policy]) -> float:
    """What all players together would gain by each best responding alone, in the game's unit; 0 at an equilibrium.

    With two players, exploitability as OpenSpiel has it is half of this.
    """
    table = _seated(game, policies)
    values = policy_value(game, policies)
    return sum(respond(game, [table], [1.0], seat, "returns").value - value for seat, value in enumerate(values))


def ceiling(game: Game, opponent: str | Policy, seat: int, objective: Objective = "returns") -> float | None:
    """The best response value for reports; None where the opponent has no `distribution` or the game no tree."""
    try:
        return best_response_value(game, opponent, seat, objective)
    except (NotExact, NotEnumerable):
        return None


def _seated(game: Game, policies: Sequence[str | Policy]) -> BySeat:
    if len(policies) != game.facts.players:
        raise ValueError(f"{game.facts.name} has {game.facts.players} seats, got {len(policies)} policies.")
    return BySeat([exact_policy(policy, game) for policy in policies])
