"""How text games are played in OpenSpiel: what searches and solvers there need to know of a game."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from mage_envs.core import Game, Turn
from mage_envs.games.kuhn_poker import CARDS
from mage_envs.games.openspiel import OpenSpiel
from mage_envs.games.openspiel.loading import load
from mage_envs.games.openspiel.position import positions
from mage_envs.games.tictactoe import ACTIONS


class DoesNotSuit(ValueError):
    """An opponent that plays games like this one, but not this one; the message says why."""


@dataclass(frozen=True)
class SpielForm:
    """How a text game is played in OpenSpiel.

    The order of `Turn.legal_actions` must be the order of the OpenSpiel state's `legal_actions()`, and, where nothing
    is hidden, `Turn.history` must hold all moves and chance events since the start. Module-level functions, or
    partials of them, keep the policies picklable.
    """

    game: str
    """OpenSpiel's game string."""
    action_of: Callable[[Any, str], int]
    """(OpenSpiel state, text of `Turn.history`) to OpenSpiel action."""
    state_of: Callable[[Turn], str]
    """A turn's information state string in OpenSpiel."""
    key_of: Callable[[Any, int], str]
    """(OpenSpiel state, player) to what `state_of` gives for that player's turn there."""

    def load(self) -> Any:
        """The `pyspiel.Game`."""
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


def _listed_action(game: str, state: Any, text: str) -> int:
    """The action that the game's own texts name so."""
    player, actions = state.current_player(), state.legal_actions()
    return int(actions[positions(game).texts.unique(state, player, actions).index(text)])


def _own_state(turn: Turn) -> str:
    return turn.information_state


def _listed_key(game: str, state: Any, player: int) -> str:
    return positions(game).texts.key(state, player)


def _state_string(state: Any, player: int) -> str:
    return str(state.information_state_string(player))


FORMS: dict[str, SpielForm] = {
    "TicTacToe": SpielForm("tic_tac_toe", _cell, _moves, _state_string),
    "KuhnPoker": SpielForm("kuhn_poker", _kuhn_action, _kuhn_state, _state_string),
}
"""`Game.name` to its form, for games that are not made of OpenSpiel but equal one of its games."""


@lru_cache(maxsize=64)
def _form_by_texts(game: str) -> SpielForm:
    return SpielForm(game, partial(_listed_action, game), _own_state, partial(_listed_key, game))


def form_of(game: Game, opponent: str) -> SpielForm:
    """The game's form; DoesNotSuit, naming `opponent`, for a game that OpenSpiel does not have."""
    if isinstance(game, OpenSpiel):
        return _form_by_texts(game.spiel_game)
    if game.facts.name not in FORMS:
        raise DoesNotSuit(
            f"Opponent {opponent!r} cannot play {game.facts.name}; add its form to opponents.openspiel.FORMS."
        )
    return FORMS[game.facts.name]
