"""Games small enough to be a table: every position is one shared, precomputed node, and a move is a dict lookup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np

from mage_envs.core import IllegalAction, TextGame, Turn

NOBODY: tuple[str, ...] = ()


class GameNode(Protocol):
    """A position of an enumerable game, for exact analysis: no chance below the roots' draw."""

    @property
    def player(self) -> int | None: ...

    @property
    def legal(self) -> tuple[str, ...]: ...

    @property
    def returns(self) -> tuple[float, ...]: ...

    @property
    def children(self) -> Mapping[str, GameNode]: ...

    def turn(self) -> Turn: ...

    def view(self, player: int) -> str:
        """What `player` sees here; at the end of a hand, all it ever learns of it beyond its own turns."""
        ...


class TableNode:
    """One position. `observations` and `keys` have one text per player."""

    __slots__ = ("accepted", "children", "keys", "legal", "observations", "player", "returns", "turns")

    def __init__(
        self,
        player: int | None,
        observations: tuple[str, ...],
        keys: tuple[str, ...],
        returns: tuple[float, ...],
    ) -> None:
        self.player = player
        self.observations = observations
        self.keys = keys
        self.returns = returns
        self.legal: tuple[str, ...] = NOBODY
        self.children: dict[str, TableNode] = {}
        """Canonical action text to the next node, in the order of `legal`."""
        self.accepted: dict[str, tuple[str, TableNode]] = {}
        """Every accepted spelling to (canonical text, next node)."""
        self.turns: dict[tuple[int, int], Turn] = {}
        """(player, episode) to the turn without history, as far as it was asked for."""

    def connect(self, children: Mapping[str, TableNode], spellings: Mapping[str, Sequence[str]] = {}) -> None:
        """Sets the moves; `spellings` lists further accepted texts of a canonical one, in lower case."""
        self.legal = tuple(children)
        self.children = dict(children)
        for action, child in children.items():
            for text in (action, *spellings.get(action, ())):
                self.accepted[text] = (action, child)

    def turn(self) -> Turn:
        """The mover's turn, without history."""
        if self.player is None:
            raise ValueError("The hand is over: nobody is to move.")
        return Turn(self.player, self.observations[self.player], self.legal, self.keys[self.player])

    def view(self, player: int) -> str:
        """The observation of `player`."""
        return self.observations[player]


_BY_THE_TABLE = (
    "reset",
    "start",
    "current_player",
    "legal_actions",
    "observe",
    "information_state",
    "returns",
    "turn",
    "canonical",
    "apply",
    "normalise",
    "won",
)
"""What a game must leave as `TableGame` has it for its table to be all there is."""


@lru_cache(maxsize=64)
def most_turns(roots: tuple[TableNode, ...]) -> int:
    """The most turns that one player can have in a hand from one of these roots."""
    turns: dict[TableNode, tuple[int, ...]] = {}

    def below(node: TableNode) -> tuple[int, ...]:
        """By player, from `node` on."""
        if node not in turns:
            after = [below(child) for child in node.children.values()] or [(0,) * len(node.returns)]
            turns[node] = tuple(
                max(counts) + (player == node.player) for player, counts in enumerate(zip(*after, strict=True))
            )
        return turns[node]

    return max(max(below(root)) for root in roots)


class TableGame(TextGame):
    """Machinery of a table game; a subclass writes `roots` and the texts."""

    node: TableNode
    """The current position."""
    _history: tuple[str, ...] = ()

    def roots(self) -> Sequence[tuple[float, TableNode]]:
        """The roots with their probabilities."""
        raise TypeError(f"{type(self).__name__} must define roots().")

    def all_roots(self) -> tuple[TableNode, ...]:
        """The roots alone."""
        return tuple(node for _, node in self.roots())

    def is_plain(self) -> bool:
        """Whether hands go on by the table alone, so that one may walk through it without the game."""
        return all(getattr(type(self), name) is getattr(TableGame, name) for name in _BY_THE_TABLE)

    def reset(self, rng: np.random.Generator) -> None:
        roots = self.roots()
        self.start(self.root_at(rng.random()) if len(roots) > 1 else roots[0][1])

    def root_at(self, draw: float) -> TableNode:
        """The root for a uniform draw in [0, 1): each has its probability's share of it, in order."""
        roots = self.roots()
        for probability, node in roots:
            draw -= probability
            if draw < 0:
                return node
        return roots[-1][1]

    def start(self, node: TableNode) -> None:
        """Puts the game at a root."""
        self.node = node
        self._history = ()

    def current_player(self) -> int | None:
        return self.node.player

    def legal_actions(self) -> tuple[str, ...]:
        return self.node.legal

    def observe(self, player: int) -> str:
        return self.node.observations[player]

    def information_state(self, player: int) -> str:
        return self.node.keys[player]

    def returns(self) -> tuple[float, ...]:
        return self.node.returns

    def history(self) -> tuple[str, ...]:
        return self._history

    def turn(self, player: int, episode: int = 0) -> Turn:
        node = self.node
        known = node.turns.get((player, episode))
        if known is None or self.perfect_information:
            known = Turn(
                player,
                node.observations[player],
                node.legal if node.player == player else NOBODY,
                node.keys[player],
                episode,
                self._history,
            )
            if not self.perfect_information:
                node.turns[player, episode] = known
        return known

    def canonical(self, action: str) -> str:
        accepted = self.node.accepted
        found = accepted.get(action) or accepted.get(self.normalise(action))
        return found[0] if found else action

    def apply(self, action: str) -> None:
        node = self.node
        found = node.accepted.get(action) or node.accepted.get(self.normalise(action))
        if found is None:
            raise IllegalAction(action, node.legal)
        self.node = found[1]
        if self.perfect_information:
            self._history = (*self._history, found[0])

    @staticmethod
    def normalise(action: str) -> str:
        """The spelling that `accepted` knows: stripped, lower case. Over-long text is no action."""
        return action.strip().lower() if len(action) <= 100 else ""
