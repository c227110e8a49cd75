"""Positions of an OpenSpiel game with cached texts. All instances of a small game share its positions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from mage_envs.games.openspiel.breakthrough import BreakthroughTexts
from mage_envs.games.openspiel.connect_four import ConnectFourTexts
from mage_envs.games.openspiel.generic_texts import CHANCE, Texts
from mage_envs.games.openspiel.leduc import LeducTexts
from mage_envs.games.openspiel.liars_dice import LiarsDiceTexts
from mage_envs.games.openspiel.negotiation import NegotiationTexts
from mage_envs.games.openspiel.one_shot import OneShotTexts
from mage_envs.spiel.loading import check_legal, load, load_unchanged
from mage_envs.spiel.size import is_small
from mage_envs.spiel.wrappers import unwrap

VOICES: Mapping[str, type[Texts]] = {
    "leduc_poker": LeducTexts,
    "connect_four": ConnectFourTexts,
    "liars_dice": LiarsDiceTexts,
    "bargaining": NegotiationTexts,
    "breakthrough": BreakthroughTexts,
}
"""OpenSpiel's short name to the class of the game's own texts. To give a game its own texts, add an entry."""
MAX_CACHED_POSITIONS = 20_000
"""Maximum number of positions to keep per small game. The first positions stay; a state needs one to five kilobytes."""


class Position:
    """A position: a decision, a chance event or the end of a hand. Its state is never changed."""

    def __init__(self, state: Any, texts: Texts) -> None:
        self.state = state
        self.player: int | None = None
        """Player to move: CHANCE at a chance event, None at the end of a hand."""
        self.actions: tuple[int, ...] = ()
        """OpenSpiel's actions in its order. `legal` has the same order."""
        self.legal: tuple[str, ...] = ()
        self.odds: tuple[float, ...] = ()
        """Probability of each of `actions` at a chance event, else empty."""
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
        """Return OpenSpiel's action for a text, or None if the text names none.

        Case and surrounding blanks are ignored if the action stays unambiguous.
        """
        # Built at the first use, because chance events and ends of hands never need it.
        moves = self._moves
        if moves is None:
            moves = self._moves = _readings(self.legal, self.actions)
        action = moves.get(text)
        # The limit makes a long reply of a model cheap to reject.
        if action is None and len(text) <= 200:
            stripped = text.strip()
            action = moves.get(stripped)
            if action is None:
                action = moves.get(stripped.lower())
        return action

    def text_of(self, texts: Texts, action: int) -> str:
        """Return the text of one of `actions`, which may be a chance outcome."""
        names = self.legal or texts.unique(self.state, CHANCE, self.actions)
        return names[self.actions.index(action)]

    def observe(self, texts: Texts, player: int) -> str:
        """Return the observation of `player`."""
        text = self._observations.get(player)
        if text is None:
            text = self._observations[player] = texts.observe(self.state, player)
        return text

    def key(self, texts: Texts, player: int) -> str:
        """Return the key of the information of `player`."""
        key = self._keys.get(player)
        if key is None:
            key = self._keys[player] = texts.key(self.state, player)
        return key

    def sample_outcome(self, draw: float) -> int:
        """Return the chance outcome for a uniform draw in [0, 1), by inverting the cumulative distribution."""
        for action, probability in zip(self.actions, self.odds, strict=True):
            draw -= probability
            if draw < 0:
                return action
        # Rounding can leave a draw close to 1 without an outcome.
        return self.actions[-1]


@lru_cache(maxsize=256)
def _readings(legal: tuple[str, ...], actions: tuple[int, ...]) -> dict[str, int]:
    """Return a dict from every accepted text to its action. Positions with the same moves share it."""
    # A lower-case text is accepted if only one action has it. Exact texts come last, so that they win.
    folded = [text.lower() for text in legal]
    readings = {text: action for text, action in zip(folded, actions, strict=True) if folded.count(text) == 1}
    readings.update(zip(legal, actions, strict=True))
    return readings


def texts_of(text: str) -> Texts:
    """Return the texts of a game string: the game's own ones, those of a game of one choice, or the generic ones."""
    import pyspiel

    unwrapped = unwrap(load_unchanged(text))
    kind = unwrapped.inner.get_type()
    one_shot = kind.information == pyspiel.GameType.Information.ONE_SHOT
    return (OneShotTexts if one_shot else VOICES.get(kind.short_name, Texts))(load(text), unwrapped)


class Positions:
    """The positions of one game, starting at its root."""

    def __init__(self, text: str) -> None:
        self.game = load(text)
        self.texts = texts_of(text)
        self.root = Position(self.game.new_initial_state(), self.texts)
        # A large game has too many positions for a cache to be of use.
        self._places = MAX_CACHED_POSITIONS if is_small(text) else 0

    def after(self, position: Position, action: int) -> Position:
        """Return the position after one of the actions of `position`."""
        child = position.children.get(action)
        if child is None:
            child = Position(position.state.child(action), self.texts)
            if self._places:
                self._places -= 1
                position.children[action] = child
        return child


@lru_cache(maxsize=16)
def positions(text: str) -> Positions:
    """Return the positions of a game string, shared within the process."""
    return Positions(text)
