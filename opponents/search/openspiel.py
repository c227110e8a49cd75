"""Correspondence between text games and OpenSpiel games, for OpenSpiel's searches and solvers."""

from __future__ import annotations

from typing import Any, cast

from mage_envs.core import Game, Turn
from mage_envs.games.kuhn_poker import CARDS
from mage_envs.games.tictactoe import ACTIONS
from mage_envs.spiel.form import SpielForm


class DoesNotSuit(ValueError):
    """An opponent that cannot play this game, though it is registered for it; the message has the reason."""


_CELLS = {action: cell for cell, action in enumerate(ACTIONS)}


def _cell(state: Any, text: str) -> int:
    return _CELLS[text]


def _moves(turn: Turn) -> str:
    return ", ".join(str(_CELLS[text]) for text in turn.history)


def _kuhn_action(state: Any, text: str) -> int:
    return int(text in ("bet", "call"))


def _kuhn_state(turn: Turn) -> str:
    return f"{CARDS.index(turn.information_state[0])}{turn.information_state[1:]}"


def _state_string(state: Any, player: int) -> str:
    return str(state.information_state_string(player))


FORMS: dict[str, SpielForm] = {
    "TicTacToe": SpielForm("tic_tac_toe", _cell, _moves, _state_string),
    "KuhnPoker": SpielForm("kuhn_poker", _kuhn_action, _kuhn_state, _state_string),
}
"""Map from `Game.name` to its form, for games with rules of their own that equal an OpenSpiel game."""


def form_of(game: Game, opponent: str) -> SpielForm:
    """Return the game's form; raise DoesNotSuit, with the name of the opponent, if OpenSpiel does not have the game."""
    if (own_form := getattr(game, "spiel_form", None)) is not None:
        return cast(SpielForm, own_form)
    if game.spec.name not in FORMS:
        raise DoesNotSuit(
            f"Opponent {opponent!r} cannot play {game.spec.name}. Choose another opponent, "
            "or give the game an attribute spiel_form (mage_envs.spiel.form)."
        )
    return FORMS[game.spec.name]
