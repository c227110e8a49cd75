"""The whole tree of a small game, for exact analysis: all chance drawn at the root.

A root is one way in which all chance of a hand may fall. That is the same game, because nobody sees a chance event
before it happens, as long as the odds of an event do not hang on what the players did; games in which they do are
refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from mage_envs.core import Turn
from mage_envs.games.openspiel.position import Positions, positions
from mage_envs.games.openspiel.size import SMALL, count_histories
from mage_envs.games.openspiel.texts import CHANCE

MOST_NODES = SMALL
"""Positions of a tree, each once per way in which chance may fall, that are built at most."""
Odds = tuple[tuple[int, float], ...]
"""The outcomes of one chance event with their probabilities."""


class TooLarge(TypeError):
    """A game whose tree is not at hand; the message says why."""


class TreeNode:
    """A decision or an end, `GameNode`'s form; the texts of what a player sees are made when they are asked for."""

    __slots__ = ("_positions", "_state", "_turn", "children", "legal", "player", "returns")

    def __init__(self, state: Any, source: Positions) -> None:
        self._positions = source
        self._state = state
        self._turn: Turn | None = None
        self.children: dict[str, TreeNode] = {}
        self.legal: tuple[str, ...] = ()
        self.player: int | None = None
        if state.is_terminal():
            self.returns: tuple[float, ...] = tuple(state.returns())
        else:
            self.player = state.current_player()
            self.returns = (0.0,) * source.game.num_players()

    def view(self, player: int) -> str:
        """The observation of `player`."""
        return self._positions.texts.observe(self._state, player)

    def turn(self) -> Turn:
        """The mover's turn, without history."""
        if self.player is None:
            raise ValueError("The hand is over: nobody is to move.")
        if self._turn is None:
            texts, player = self._positions.texts, self.player
            self._turn = Turn(player, texts.observe(self._state, player), self.legal, texts.key(self._state, player))
        return self._turn


@lru_cache(maxsize=4)
def roots(text: str) -> Sequence[tuple[float, TreeNode]]:
    """The roots with their probabilities, one per way in which chance may fall; built once (Leduc: under 1 s).

    Raises TooLarge for a game whose tree is not at hand.
    """
    if count_histories(text, MOST_NODES) is None:
        raise TooLarge(f"{text} has more than {MOST_NODES:,} histories: no exact values, and no solver, for it.")
    builder = _Builder(text, positions(text))
    events = builder.events()
    return tuple((odds, builder.build(fall)) for odds, fall in _falls(events, ()))


def _falls(events: dict[tuple[int, ...], Odds], before: tuple[int, ...]) -> Iterator[tuple[float, tuple[int, ...]]]:
    """Every way in which chance may fall, with its probability."""
    if before not in events:
        yield 1.0, before
        return
    for outcome, chance in events[before]:
        if chance > 0:
            for odds, fall in _falls(events, (*before, outcome)):
                yield chance * odds, fall


class _Builder:
    def __init__(self, text: str, source: Positions) -> None:
        self.text = text
        self.source = source
        self._nodes = 0

    def events(self) -> dict[tuple[int, ...], Odds]:
        """The outcomes so far to the odds of the next chance event."""
        found: dict[tuple[int, ...], Odds] = {}
        stack: list[tuple[Any, tuple[int, ...]]] = [(self.source.game.new_initial_state(), ())]
        while stack:
            state, seen = stack.pop()
            if state.is_terminal():
                continue
            if not state.is_chance_node():
                stack.extend((state.child(action), seen) for action in state.legal_actions())
                continue
            odds = tuple(state.chance_outcomes())
            known = found.setdefault(seen, odds)
            if known != odds:
                raise TooLarge(
                    f"In {self.text} the odds of chance hang on what the players do: no exact values for it."
                )
            stack.extend((state.child(outcome), (*seen, outcome)) for outcome, chance in odds if chance > 0)
        return found

    def build(self, fall: tuple[int, ...]) -> TreeNode:
        """The tree in which chance falls so."""
        return self._build(self.source.game.new_initial_state(), fall, 0)

    def _build(self, state: Any, fall: tuple[int, ...], drawn: int) -> TreeNode:
        while not state.is_terminal() and state.current_player() == CHANCE:
            state.apply_action(fall[drawn])
            drawn += 1
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise TooLarge(
                f"{self.text} has more than {MOST_NODES:,} positions when all chance is drawn first: no exact values."
            )
        node = TreeNode(state, self.source)
        if node.player is not None:
            actions = state.legal_actions()
            node.legal = self.source.texts.unique(state, node.player, actions)
            for text, action in zip(node.legal, actions, strict=True):
                node.children[text] = self._build(state.child(action), fall, drawn)
        return node
