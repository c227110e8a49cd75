"""An opponent's replies in a table game as a table of their own: one lookup, at most one uniform draw."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from mage_envs.core import StatePolicy
from mage_envs.games.table import TableNode


class Branch(NamedTuple):
    """A reply: the first position whose threshold lies above the draw, else the last."""

    drawn: bool
    """Whether it takes a draw; if not, there are no thresholds."""
    cuts: tuple[tuple[float, TableNode], ...]
    last: TableNode


@lru_cache(maxsize=64)
def table_of(opponent: str, roots: tuple[TableNode, ...]) -> dict[TableNode, Branch]:
    """The one table of the opponent that a name stands for, in the game with these roots; at first empty."""
    return {}


class Replies:
    """The positions after the moves of a policy that is a function of the information state; filled as they occur."""

    __slots__ = ("_policy", "_table")

    def __init__(self, policy: StatePolicy, table: dict[TableNode, Branch] | None = None) -> None:
        """`table`: what is known already, and filled further; equal policies may share one."""
        self._policy = policy
        self._table = {} if table is None else table

    def respond(self, node: TableNode, seat: int, random: Callable[[], float]) -> TableNode:
        """The position after the policy's moves, up to the turn of `seat` or the end.

        Takes the same draws from `random` as the policy itself would.
        """
        player = node.player
        while player is not None and player != seat:
            drawn, cuts, node = self._table.get(node) or self._learn(node)
            if drawn:
                draw = random()
                for threshold, child in cuts:
                    if draw < threshold:
                        node = child
                        break
            player = node.player
        return node

    def _learn(self, node: TableNode) -> Branch:
        cuts, last = self._policy.cuts(node.turn())
        after = tuple((threshold, node.children[action]) for threshold, action in cuts)
        self._table[node] = reply = Branch(not self._policy.deterministic, after, node.children[last])
        return reply
