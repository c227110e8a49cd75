"""An opponent's replies in a table game as a table of their own: one lookup, at most one uniform draw."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mage_envs.core import StatePolicy
from mage_envs.games.table import TableNode


class Branch(NamedTuple):
    """A random reply: the first position whose threshold lies above the draw, else the last."""

    cuts: tuple[tuple[float, TableNode], ...]
    last: TableNode


class Replies:
    """The positions after the moves of a policy that is a function of the information state; filled as they occur."""

    def __init__(self, policy: StatePolicy) -> None:
        self._policy = policy
        self._table: dict[TableNode, TableNode | Branch] = {}

    def respond(self, node: TableNode, seat: int, random: Callable[[], float]) -> TableNode:
        """The position after the policy's moves, up to the turn of `seat` or the end.

        Takes the same draws from `random` as the policy itself would.
        """
        while node.player is not None and node.player != seat:
            reply = self._table.get(node) or self._learn(node)
            if not isinstance(reply, Branch):
                node = reply
                continue
            cuts, node = reply
            draw = random()
            for threshold, child in cuts:
                if draw < threshold:
                    node = child
                    break
        return node

    def _learn(self, node: TableNode) -> TableNode | Branch:
        cuts, last = self._policy.cuts(node.turn())
        reply: TableNode | Branch = node.children[last]
        if not self._policy.deterministic:
            reply = Branch(tuple((threshold, node.children[action]) for threshold, action in cuts), node.children[last])
        self._table[node] = reply
        return reply
