"""The perfect player of a game whose whole tree is at hand."""

from __future__ import annotations

from functools import partial

from mage_envs.core import TextGame
from mage_envs.games.table import GameNode
from opponents.exact.tree import positions, roots_of
from opponents.registry import register_opponent
from opponents.tabular import RulePolicy, look_up

_TABLES: dict[GameNode, dict[str, dict[str, float]]] = {}
"""Solved roots; positions are shared by all instances of a game."""


def best_moves(root: GameNode) -> dict[str, dict[str, float]]:
    """Information state to its best actions, equally likely; one backward pass over the positions below `root`."""
    table: dict[str, dict[str, float]] = {}
    values: dict[GameNode, tuple[float, ...]] = {}
    for node in reversed(positions([root])):
        if node.player is None:
            values[node] = node.returns
            continue
        mover = node.player
        outcomes = {action: values[child] for action, child in node.children.items()}
        values[node] = max(outcomes.values(), key=lambda returns: returns[mover])
        best = [action for action, returns in outcomes.items() if returns[mover] == values[node][mover]]
        table[node.turn().information_state] = dict.fromkeys(best, 1 / len(best))
    return table


@register_opponent("minimax", games=("TicTacToe",), needs_game=True)
def minimax(game: TextGame) -> RulePolicy:
    """Random among the moves of the best game value; the table is built once per process (Tic-Tac-Toe: 0.2 s)."""
    ((_, root),) = roots_of(game)
    if root not in _TABLES:
        _TABLES[root] = best_moves(root)
    return RulePolicy(partial(look_up, _TABLES[root]))
