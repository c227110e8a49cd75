"""Positions of a game of OpenSpiel, with their texts made once; those of small games are shared by all instances."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from mage_envs.games.openspiel.loading import check_legal, load
from mage_envs.games.openspiel.size import is_small
from mage_envs.games.openspiel.texts import CHANCE, Texts
from mage_envs.games.openspiel.voices import VOICES

KEPT = 20_000
"""Positions that are kept per small game, first come first served; a state takes one to five kilobytes."""


class Position:
    """One position: a decision, a chance event or an end. The state is never changed."""

    def __init__(self, state: Any, texts: Texts) -> None:
        self.state = state
        self.player: int | None = None
        """Who moves; CHANCE at a chance event, None at an end."""
        self.actions: tuple[int, ...] = ()
        """OpenSpiel's actions, in its order, which `legal` keeps."""
        self.legal: tuple[str, ...] = ()
        self.odds: tuple[float, ...] = ()
        """At a chance event, the probabilities of `legal`."""
        self.children: dict[int, Position] = {}
        self._moves: dict[str, int] | None = None
        self._observations: dict[int, str] = {}
        self._keys: dict[int, str] = {}
        if state.is_terminal():
            self.returns: tuple[float, ...] = tuple(state.returns())
            return
        player = self.player = int(state.current_player())
        self.returns = (0.0,) * texts.game.num_players()
        if player == CHANCE:
            outcomes = state.chance_outcomes()
            self.actions = tuple(action for action, _ in outcomes)
            self.odds = tuple(probability for _, probability in outcomes)
        else:
            self.actions = tuple(state.legal_actions())
            check_legal(str(texts.game), list(self.actions))
            self.legal = texts.unique(state, player, self.actions)

    def action_of(self, text: str) -> int | None:
        """OpenSpiel's action for a text: as it is listed, or but for case and spaces around it where that is clear."""
        moves = self._moves
        if moves is None:
            moves = self._moves = _readings(self.legal, self.actions)
        action = moves.get(text)
        if action is None and len(text) <= 200:
            stripped = text.strip()
            action = moves.get(stripped)
            if action is None:
                action = moves.get(stripped.lower())
        return action

    def text_of(self, texts: Texts, action: int) -> str:
        """The text of one of `actions`, of a chance outcome too."""
        names = self.legal or texts.unique(self.state, CHANCE, self.actions)
        return names[self.actions.index(action)]

    def observe(self, texts: Texts, player: int) -> str:
        """What `player` sees here."""
        found = self._observations.get(player)
        if found is None:
            found = self._observations[player] = texts.observe(self.state, player)
        return found

    def key(self, texts: Texts, player: int) -> str:
        """What `player` knows here, as a key."""
        found = self._keys.get(player)
        if found is None:
            found = self._keys[player] = texts.key(self.state, player)
        return found

    def drawn(self, draw: float) -> int:
        """The chance outcome for a uniform draw in [0, 1): each has its probability's share of it, in order."""
        for action, probability in zip(self.actions, self.odds, strict=True):
            draw -= probability
            if draw < 0:
                return action
        return self.actions[-1]


@lru_cache(maxsize=256)
def _readings(legal: tuple[str, ...], actions: tuple[int, ...]) -> dict[str, int]:
    """Every accepted text to its action, shared by positions with the same moves."""
    folded = [text.lower() for text in legal]
    readings = {text: action for text, action in zip(folded, actions, strict=True) if folded.count(text) == 1}
    readings.update(zip(legal, actions, strict=True))
    return readings


class Positions:
    """The positions of one game, from its root on."""

    def __init__(self, text: str) -> None:
        self.game = load(text)
        self.texts = VOICES.get(self.game.get_type().short_name, Texts)(self.game)
        self.root = Position(self.game.new_initial_state(), self.texts)
        self._places = KEPT if is_small(text) else 0

    def after(self, position: Position, action: int) -> Position:
        """The position after one of the position's actions."""
        found = position.children.get(action)
        if found is None:
            found = Position(position.state.child(action), self.texts)
            if self._places:
                self._places -= 1
                position.children[action] = found
        return found


@lru_cache(maxsize=16)
def positions(text: str) -> Positions:
    """The shared positions of a game string."""
    return Positions(text)
