"""Loading of OpenSpiel games by their string, and the checks that reject unsuitable games."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import isfinite
from typing import Any

import numpy as np

from mage_envs.loading.arguments import nearest_name
from mage_envs.loading.imports import check_path

MOST_LEGAL = 2000
"""Maximum number of legal actions at one decision, because prompts list them as text."""


class UnsuitableGame(ValueError):
    """A game of OpenSpiel that cannot be played as text. The message states the reason."""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(f"OpenSpiel's {text} cannot be played as text: {reason}.")


@lru_cache(maxsize=64)
def load(text: str) -> Any:
    """Return the `pyspiel.Game` of a game string such as `"hex(board_size=4)"`.

    A game with simultaneous moves becomes a game with turns. The first call imports pyspiel. Raises UnsuitableGame,
    or ValueError if the name is unknown or a parameter is invalid.
    """
    import pyspiel

    # efg_game and nfg_game read a file, so the path is checked before OpenSpiel opens it.
    if "filename=" in text:
        check_path(text.partition("filename=")[2].rstrip(") ").partition(",")[0], "game")
    short_name = text.partition("(")[0].strip()
    names = pyspiel.registered_names()
    if short_name not in names:
        hint = nearest_name(short_name, names)
        raise ValueError(f"OpenSpiel has no game {short_name!r}.{hint} pyspiel.registered_names() lists all of them.")
    try:
        game = pyspiel.load_game(text)
    except (pyspiel.SpielError, RuntimeError, TypeError) as error:
        # OpenSpiel's message may have several lines; the first one names the problem.
        reason = str(error).strip().splitlines()[0]
        raise ValueError(
            f"OpenSpiel cannot make {text!r}: {reason} Write parameters as in 'hex(board_size=4)'."
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
        "it draws its chance by itself, so a seed cannot reproduce a hand",
    ),
    (_has_no_text, "it has no text that shows a player's information"),
    (
        lambda kinds, game: not (isfinite(game.min_utility()) and isfinite(game.max_utility())),
        "its returns are not bounded",
    ),
)


def _check_opening(text: str, game: Any) -> None:
    """Raise UnsuitableGame if OpenSpiel fails at the first decision, or if it has too many legal actions."""
    import pyspiel

    try:
        # A fixed seed, so that a game is accepted or rejected in every process alike.
        rng, state = np.random.default_rng(0), game.new_initial_state()
        while state.is_chance_node():
            outcomes = state.legal_actions()
            state.apply_action(outcomes[int(rng.random() * len(outcomes))])
        legal = state.legal_actions()
        # Every text is requested once, because a game may declare a text and then fail to produce it.
        for player in range(game.num_players()):
            sight(game, state, player)
    except (pyspiel.SpielError, RuntimeError) as error:
        raise UnsuitableGame(text, f"OpenSpiel says {str(error).strip().splitlines()[0]!r}") from None
    check_legal(text, legal)


def check_legal(text: str, legal: list[int]) -> None:
    """Raise UnsuitableGame if a decision has more than `MOST_LEGAL` actions."""
    if len(legal) > MOST_LEGAL:
        raise UnsuitableGame(text, f"one decision has {len(legal)} legal actions, expected at most {MOST_LEGAL}")


def sight(game: Any, state: Any, player: int) -> str:
    """Return OpenSpiel's text for `player`: the board if nothing is hidden, else the player's information state.

    Args:
        game: The `pyspiel.Game`.
        state: A state of that game.
        player: Seat of the player.
    """
    import pyspiel

    kind = game.get_type()
    hidden = kind.information != pyspiel.GameType.Information.PERFECT_INFORMATION
    if kind.provides_information_state_string and (hidden or not kind.provides_observation_string):
        return str(state.information_state_string(player))
    return str(state.observation_string(player) if kind.provides_observation_string else state)
