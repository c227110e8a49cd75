"""Exact values of policies against each other, and their distance from best responses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mage_envs.core import Game, NotEnumerable, Policy
from mage_envs.opponents.exact.best_response import best_response, respond
from mage_envs.opponents.exact.tree import BySeat, NotExact, Objective, exact_policy, payoff_of
from mage_envs.tree import Node, positions, roots_of


def policy_value(game: Game, policies: Sequence[str | Policy], objective: Objective = "returns") -> tuple[float, ...]:
    """Return each player's expected payoff.

    Args:
        game: Game with an enumerable tree.
        policies: Policy of each seat, as names or policies.
        objective: Payoff, `returns` or `success`.

    Raises:
        NotExact: If a policy has no `distribution`, or remembers earlier hands.
        NotEnumerable: If the tree of the game cannot be enumerated.
        ValueError: If the number of policies or the objective is wrong.
    """
    table = _seat_policies(game, policies)
    payoff = payoff_of(objective)
    roots = roots_of(game)
    order = positions([node for _, node in roots])
    reach: dict[Node, float] = dict.fromkeys(order, 0.0)
    for chance, root in roots:
        reach[root] += chance
    totals = [0.0] * game.spec.players
    # Parents precede their children in `order`, so a node's probability is complete when it is visited.
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
    response: Policy,
    opponents: Sequence[Policy],
    weights: Sequence[float],
    seat: int,
    objective: Objective,
) -> float:
    """Return the value of a response against one of several opponents, which may differ from those it was found for.

    If a `HistoryPolicy` does not know a history, it plays the first action.

    Args:
        game: Game with an enumerable tree.
        response: Deterministic policy of the responding seat.
        weights: Probability of each opponent, (N,).
        objective: Payoff, `returns` or `success`.
    """
    # Imported here, because no other value needs it.
    from mage_envs.opponents.exact.perfect_information import HistoryPolicy

    payoff = payoff_of(objective)

    def value(node: Node, history: tuple[str, ...], reach: NDArray[np.float64]) -> float:
        if node.player is None:
            return float(reach.sum()) * payoff(node, seat)
        turn = node.turn()._replace(history=history)
        if node.player == seat:
            known_action = response.find(turn) if isinstance(response, HistoryPolicy) else response.act(turn)
            action = node.legal[0] if known_action is None else known_action
            return value(node.children[action], (*history, action), reach)
        # The order of moves matters for a history policy, so this walks the histories and not the shared positions.
        rows = [opponent.distribution(turn) for opponent in opponents]
        total = 0.0
        for action, child in node.children.items():
            next_reach = reach * [row.get(action, 0.0) for row in rows]
            if next_reach.any():
                total += value(child, (*history, action), next_reach)
        return total

    return sum(value(root, (), chance * np.array(weights, float)) for chance, root in roots_of(game))


def nash_conv(game: Game, policies: Sequence[str | Policy]) -> float:
    """Return the sum of all players' gains if each switched alone to its best response, in the game's unit.

    It is 0 at an equilibrium. With two players, OpenSpiel's exploitability is half of it.
    """
    table = _seat_policies(game, policies)
    values = policy_value(game, policies)
    return sum(respond(game, [table], [1.0], seat, "returns").value - value for seat, value in enumerate(values))


def ceiling(game: Game, opponent: str | Policy, seat: int, objective: Objective = "returns") -> float | None:
    """Return the best response value, or None if exact values do not exist.

    Args:
        opponent: Opponent in all other seats.
        objective: Payoff that is maximised, `returns` or `success`.
    """
    try:
        return best_response(game, opponent, seat, objective).value
    except (NotExact, NotEnumerable):
        return None


def _seat_policies(game: Game, policies: Sequence[str | Policy]) -> BySeat:
    if len(policies) != game.spec.players:
        raise ValueError(f"{game.title} has {game.spec.players} seats, got {len(policies)} policies.")
    return BySeat([exact_policy(policy, game) for policy in policies])
