"""The perfect player of a game whose whole tree is at hand."""

from __future__ import annotations

from functools import lru_cache, partial

from mage_envs.core import Game
from opponents.exact.tree import Node, positions, roots_of
from opponents.tabular import RulePolicy, look_up


@lru_cache(maxsize=4)
def best_moves(root: Node) -> dict[str, dict[str, float]]:
    """Information state to its best actions, equally likely; one backward pass over the positions below `root`."""
    table: dict[str, dict[str, float]] = {}
    values: dict[Node, tuple[float, ...]] = {}
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


def minimax(game: Game) -> RulePolicy:
    """Random among the moves of the best game value; the table is built once per process (Tic-Tac-Toe: 0.2 s)."""
    ((_, root),) = roots_of(game)
    return RulePolicy(partial(look_up, best_moves(root)))
