"""Tic-Tac-Toe opponents that depend only on the empty cells: six fixed orders and two biased draws.

Source: section 6 of the suite's game specification, based on the opponents of the MAGE paper's Tic-Tac-Toe.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import hypot

from mage_envs.core import Turn
from mage_envs.games.tictactoe import ACTIONS
from mage_envs.opponents.pools import register_pool
from mage_envs.opponents.registry import register_opponent
from mage_envs.opponents.tabular import RulePolicy

_GAMES = ("TicTacToe",)

ORDERS: Mapping[str, str] = {
    "pattern-1": "11 00 02 20 22 01 10 12 21",
    "pattern-2": "00 02 20 22 11 01 10 12 21",
    "pattern-3": "01 10 12 21 11 00 02 20 22",
    "pattern-4": "00 11 22 02 20 01 10 12 21",
    "pattern-5": "02 11 20 00 22 01 10 12 21",
    "pattern-6": "22 20 02 00 11 21 12 10 01",
}
"""Map from a name to the order in which the policy tries the cells: row and column, both from 0."""

CENTRE = ((1, 1),)
CORNERS = ((0, 0), (0, 2), (2, 0), (2, 2))


def first_empty(order: tuple[str, ...], turn: Turn) -> dict[str, float]:
    """Return probability 1 for the first legal action of `order`."""
    return {next(action for action in order if action in turn.legal_actions): 1.0}


def pattern(name: str) -> RulePolicy:
    """Return the deterministic policy of one of `ORDERS`."""
    order = tuple(ACTIONS[3 * int(cell[0]) + int(cell[1])] for cell in ORDERS[name].split())
    return RulePolicy(partial(first_empty, order))


def proportional_distribution(weights: Mapping[str, float], turn: Turn) -> dict[str, float]:
    """Return the legal actions' probabilities, in proportion to `weights`."""
    total = sum(weights[action] for action in turn.legal_actions)
    return {action: weights[action] / total for action in turn.legal_actions}


def build_biased(targets: tuple[tuple[int, int], ...]) -> RulePolicy:
    """Return a policy that draws an empty cell with weight (1 / (1 + d))^2.

    d is the cell's Euclidean distance to the nearest of `targets`, which are (row, column) pairs.
    """
    weights = {}
    for index, action in enumerate(ACTIONS):
        row, column = divmod(index, 3)
        distance = min(hypot(row - r, column - c) for r, c in targets)
        weights[action] = (1 / (1 + distance)) ** 2
    return RulePolicy(partial(proportional_distribution, weights))


for _name in ORDERS:
    register_opponent(f"tictactoe/{_name}", games=_GAMES)(partial(pattern, _name))
register_opponent("tictactoe/center-biased", games=_GAMES)(partial(build_biased, CENTRE))
register_opponent("tictactoe/corner-biased", games=_GAMES)(partial(build_biased, CORNERS))
_PATTERNS = tuple(f"tictactoe/{name}" for name in ORDERS)
register_pool("tictactoe/balanced", {"mcts:100": 8, **dict.fromkeys(_PATTERNS, 1), "uniform": 2})
register_pool("tictactoe/skewed", {"mcts:100": 4, **dict.fromkeys(_PATTERNS, 1.5), "uniform": 3})
register_pool("tictactoe/patterns", dict.fromkeys(_PATTERNS, 1))
