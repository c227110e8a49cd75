"""Which games of OpenSpiel suit: loaded by their string, or refused with one line that says why."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import isfinite
from typing import Any

import numpy as np

from mage_envs.arguments import nearest_name
from mage_envs.imports import check_path

MOST_LEGAL = 2000
"""Legal actions at one decision, as texts, above which a game does not suit."""


class UnsuitableGame(ValueError):
    """A game of OpenSpiel that cannot be played in text here; the message says why."""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(f"OpenSpiel's {text} does not suit: {reason}.")


@lru_cache(maxsize=64)
def load(text: str) -> Any:
    """The `pyspiel.Game` of a game string such as `"hex(board_size=4)"`, simultaneous moves made one after the other.

    Loads pyspiel at the first call. Raises UnsuitableGame, and ValueError for an unknown name or bad parameters.
    """
    import pyspiel

    if "filename=" in text:  # efg_game and nfg_game read a file
        check_path(text.partition("filename=")[2].rstrip(") ").partition(",")[0], "game")
    short_name = text.partition("(")[0].strip()
    names = pyspiel.registered_names()
    if short_name not in names:
        hint = nearest_name(short_name, names)
        raise ValueError(f"OpenSpiel has no game {short_name!r}.{hint} pyspiel.registered_names() lists all of them.")
    try:
        game = pyspiel.load_game(text)
    except (pyspiel.SpielError, RuntimeError, TypeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(
            f"OpenSpiel cannot make {text!r}: {reason} Give parameters as in 'hex(board_size=4)'."
        ) from None
    kinds = pyspiel.GameType
    if game.get_type().dynamics == kinds.Dynamics.SIMULTANEOUS:
        game = pyspiel.convert_to_turn_based(game)
    for is_reason, reason in _REASONS:
        if is_reason(kinds, game):
            raise UnsuitableGame(text, reason)
    _check_opening(text, game)
    return game


def _has_no_text(kinds: Any, game: Any) -> bool:
    kind = game.get_type()
    return not (
        kind.provides_information_state_string
        or kind.provides_observation_string
        or kind.information == kinds.Information.PERFECT_INFORMATION
    )


_REASONS: tuple[tuple[Callable[[Any, Any], bool], str], ...] = (
    (lambda kinds, game: game.get_type().dynamics == kinds.Dynamics.MEAN_FIELD, "a mean-field game has no players"),
    (
        lambda kinds, game: game.get_type().chance_mode == kinds.ChanceMode.SAMPLED_STOCHASTIC,
        "it draws its chance by itself, so that a seed would not bring the same hand back",
    ),
    (_has_no_text, "it has no text that shows a player what they know"),
    (
        lambda kinds, game: not (isfinite(game.min_utility()) and isfinite(game.max_utility())),
        "its returns are not bounded",
    ),
)


def _check_opening(text: str, game: Any) -> None:
    """Refuses games whose first decision has no listed actions, too many, or no text."""
    import pyspiel

    try:
        rng, state = np.random.default_rng(0), game.new_initial_state()
        while state.is_chance_node():
            outcomes = state.legal_actions()
            state.apply_action(outcomes[int(rng.random() * len(outcomes))])
        legal = state.legal_actions()
        for player in range(game.num_players()):
            sight(game, state, player)
    except (pyspiel.SpielError, RuntimeError) as error:
        raise UnsuitableGame(text, f"OpenSpiel says {str(error).strip().splitlines()[0]!r}") from None
    check_legal(text, legal)


def check_legal(text: str, legal: list[int]) -> None:
    """Refuses a decision between too many actions."""
    if len(legal) > MOST_LEGAL:
        raise UnsuitableGame(text, f"{len(legal)} legal actions at one decision; {MOST_LEGAL} can be listed at most")


def sight(game: Any, state: Any, player: int) -> str:
    """What OpenSpiel shows `player`: the board where nothing is hidden, else all that they know."""
    import pyspiel

    kind = game.get_type()
    hidden = kind.information != pyspiel.GameType.Information.PERFECT_INFORMATION
    if kind.provides_information_state_string and (hidden or not kind.provides_observation_string):
        return str(state.information_state_string(player))
    return str(state.observation_string(player) if kind.provides_observation_string else state)
