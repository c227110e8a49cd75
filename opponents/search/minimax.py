"""The optimal player of a game whose whole tree can be enumerated."""

from __future__ import annotations

from functools import lru_cache, partial

from mage_envs.core import Game
from mage_envs.opponents.tabular import RulePolicy, look_up
from mage_envs.tree import Node, positions, roots_of


@lru_cache(maxsize=4)
def best_moves(root: Node) -> dict[str, dict[str, float]]:
    """Return the best actions of every information state below `root`, all equally likely (one backward pass)."""
    table: dict[str, dict[str, float]] = {}
    values: dict[Node, tuple[float, ...]] = {}
    # `positions` lists each node before its children, so in reverse all children have their values already.
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
    """Return the policy that draws among the moves of the best game value.

    The table is built once per process (Tic-Tac-Toe: 0.2 s). Raises ValueError if the game has several first states.
    """
    ((_, root),) = roots_of(game)
    return RulePolicy(partial(look_up, best_moves(root)))
