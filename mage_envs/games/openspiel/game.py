"""Any game of OpenSpiel as a text game.

Rules: those of the OpenSpiel game; `VOICES` holds the games with texts of their own, the others have generic ones.
Actions: OpenSpiel's texts as they are listed, in any case where that is clear.
Observation: the position as the player may see it, who he is, and whose move it is or how the hand ended.
Returns: OpenSpiel's.
Versions: v0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mage_envs.core import IllegalAction, TextGame, Turn
from mage_envs.games.openspiel import tree
from mage_envs.games.openspiel.position import Position, positions
from mage_envs.games.openspiel.size import is_small
from mage_envs.games.openspiel.texts import CHANCE
from mage_envs.games.table import NOBODY

LONGEST = 200
"""The most answers that a hand waits for where nothing else is said."""


class OpenSpiel(TextGame):
    """The game that `game` names, as in `"hex(board_size=4)"`: `pyspiel.load_game` takes the same string.

    Moves that OpenSpiel has all players make at once are asked for one after the other, hidden from each other. Raises
    UnsuitableGame for a game that cannot be played so, ValueError for one that OpenSpiel does not know.
    """

    name = "OpenSpiel"
    rules = "A game of OpenSpiel."
    roots: Callable[[], Sequence[tuple[float, tree.TreeNode]]]
    """The whole tree, with all chance drawn at its roots; only games that are small enough have it."""

    def __init__(self, game: str = "nim(pile_sizes=1;2;3)") -> None:
        self.spiel_game = game
        """The game string."""
        self._positions = positions(game)
        spiel, self._texts = self._positions.game, self._positions.texts
        self.num_players = spiel.num_players()  # type: ignore[misc]
        self.rules = self._texts.rules()  # type: ignore[misc]
        self.perfect_information = not self._texts.hidden  # type: ignore[misc]
        self.min_return, self.max_return = spiel.min_utility(), spiel.max_utility()  # type: ignore[misc]
        self.unit = self._texts.unit  # type: ignore[misc]
        if "max_turns" not in type(self).__dict__:
            self.max_turns = min(max(spiel.max_game_length(), 6), LONGEST)  # type: ignore[misc]
        if is_small(game):
            self.roots = self._roots
        self._rng: np.random.Generator
        self._history: tuple[str, ...] = ()
        self._position = self._positions.root

    def _roots(self) -> Sequence[tuple[float, tree.TreeNode]]:
        return tree.roots(self.spiel_game)

    def reset(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._history = ()
        self._settle(self._positions.root)

    def _settle(self, position: Position) -> None:
        """Lets chance happen until a player is to move or the hand is over."""
        while position.player == CHANCE:
            outcome = position.drawn(self._rng.random())
            if self.perfect_information:
                self._history = (*self._history, position.text_of(self._texts, outcome))
            position = self._positions.after(position, outcome)
        self._position = position

    def current_player(self) -> int | None:
        return self._position.player

    def legal_actions(self) -> tuple[str, ...]:
        return self._position.legal

    def observe(self, player: int) -> str:
        return self._position.observe(self._texts, player)

    def information_state(self, player: int) -> str:
        return self._position.key(self._texts, player)

    def returns(self) -> tuple[float, ...]:
        return self._position.returns

    def history(self) -> tuple[str, ...]:
        return self._history

    def actions(self) -> tuple[str, ...] | None:
        return self._texts.actions()

    def turn(self, player: int, episode: int = 0) -> Turn:
        position, texts = self._position, self._texts
        return Turn(
            player,
            position.observe(texts, player),
            position.legal if position.player == player else NOBODY,
            position.key(texts, player),
            episode,
            self._history,
        )

    def canonical(self, action: str) -> str:
        found = self._position.action_of(action)
        return action if found is None else self._position.text_of(self._texts, found)

    def apply(self, action: str) -> None:
        position = self._position
        found = position.action_of(action)
        if found is None:
            raise IllegalAction(action, position.legal)
        if self.perfect_information:
            self._history = (*self._history, position.text_of(self._texts, found))
        self._settle(self._positions.after(position, found))
