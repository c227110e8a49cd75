"""Correspondence between text games and OpenSpiel games, for OpenSpiel's searches and solvers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from mage_envs.core import Game, Turn
from mage_envs.games.kuhn_poker import CARDS
from mage_envs.games.openspiel.loading import load
from mage_envs.games.openspiel.openspiel_game import OpenSpiel
from mage_envs.games.openspiel.position import positions
from mage_envs.games.tictactoe import ACTIONS


class DoesNotSuit(ValueError):
    """An opponent that cannot play this game, though it is registered for it; the message has the reason."""


@dataclass(frozen=True)
class SpielForm:
    """The OpenSpiel form of a text game.

    `Turn.legal_actions` must have the order of the OpenSpiel state's `legal_actions()`. If the game has perfect
    information, `Turn.history` must hold all moves and chance events since the start. The functions must be
    module-level functions or partials of them, so that policies can be pickled.
    """

    game: str
    """Game string of OpenSpiel."""
    action_of: Callable[[Any, str], int]
    """Function from (OpenSpiel state, text of `Turn.history`) to an OpenSpiel action."""
    state_of: Callable[[Turn], str]
    """Function from a turn to its information state string in OpenSpiel."""
    key_of: Callable[[Any, int], str]
    """Function from (OpenSpiel state, player) to the string that `state_of` returns for the player's turn there."""

    def load(self) -> Any:
        """Return the `pyspiel.Game`."""
        return load(self.game)


_CELLS = {action: cell for cell, action in enumerate(ACTIONS)}


def _cell(state: Any, text: str) -> int:
    return _CELLS[text]


def _moves(turn: Turn) -> str:
    return ", ".join(str(_CELLS[text]) for text in turn.history)


def _kuhn_action(state: Any, text: str) -> int:
    return int(text in ("bet", "call"))


def _kuhn_state(turn: Turn) -> str:
    return f"{CARDS.index(turn.information_state[0])}{turn.information_state[1:]}"


def _action_by_text(game: str, state: Any, text: str) -> int:
    """Return the OpenSpiel action that the game's own texts name so."""
    player, actions = state.current_player(), state.legal_actions()
    return int(actions[positions(game).texts.unique(state, player, actions).index(text)])


def _own_state(turn: Turn) -> str:
    return turn.information_state


def _key_by_text(game: str, state: Any, player: int) -> str:
    return positions(game).texts.key(state, player)


def _state_string(state: Any, player: int) -> str:
    return str(state.information_state_string(player))


FORMS: dict[str, SpielForm] = {
    "TicTacToe": SpielForm("tic_tac_toe", _cell, _moves, _state_string),
    "KuhnPoker": SpielForm("kuhn_poker", _kuhn_action, _kuhn_state, _state_string),
}
"""Map from `Game.name` to its form, for games with rules of their own that equal an OpenSpiel game."""


@lru_cache(maxsize=64)
def _form_by_texts(game: str) -> SpielForm:
    return SpielForm(game, partial(_action_by_text, game), _own_state, partial(_key_by_text, game))


def form_of(game: Game, opponent: str) -> SpielForm:
    """Return the game's form; raise DoesNotSuit, with the name of the opponent, if OpenSpiel does not have the game."""
    if isinstance(game, OpenSpiel):
        return _form_by_texts(game.spiel_game)
    if game.spec.name not in FORMS:
        raise DoesNotSuit(
            f"Opponent {opponent!r} cannot play {game.spec.name}. Add the game's form to "
            "mage_envs.opponents.search.openspiel.FORMS."
        )
    return FORMS[game.spec.name]
