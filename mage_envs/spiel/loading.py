"""Loading of OpenSpiel games by their string, and the checks that reject unsuitable games."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from mage_envs.loading.arguments import nearest_name
from mage_envs.loading.imports import check_path
from mage_envs.spiel.wrappers import EXAMPLES, REFUSED

MOST_LEGAL = 2000
"""Maximum number of legal actions at one decision, because prompts list them as text."""
_SHORT_NAME = re.compile(r"[a-z0-9_]+")
MAX_SIZE = 200
"""Maximum of a board's sizes. OpenSpiel would fill the memory with a larger board before it counts the actions."""
SIZE_PARAMETER = re.compile(r"(\w*(?:size|rows?|col(?:umn)?s?|width|height|length)\w*)\s*=\s*([0-9]+)", re.IGNORECASE)
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


class UnsuitableGame(ValueError):
    """A game of OpenSpiel that cannot be played as text. The message states the reason."""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(f"OpenSpiel's {text} cannot be played as text: {reason}.")


def options_of(name: str) -> dict[str, Any] | None:
    """Return the options of `OpenSpiel` for a name or a game string of OpenSpiel, or None if it is neither."""
    short_name = name.partition("(")[0].strip()
    # OpenSpiel's names are in lower case. No other name makes this import OpenSpiel.
    if not _SHORT_NAME.fullmatch(short_name) or find_spec("pyspiel") is None:
        return None
    import pyspiel

    return {"game": name} if short_name in pyspiel.registered_names() else None


@lru_cache(maxsize=64)
def load(text: str) -> Any:
    """Return the `pyspiel.Game` of a game string such as `"hex(board_size=4)"`.

    A game with simultaneous moves becomes a game with turns. The first call imports pyspiel. Raises UnsuitableGame,
    or ValueError if the name is unknown or a parameter is invalid.
    """
    import pyspiel

    game = load_unchanged(text)
    if game.get_type().dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS:
        game = pyspiel.convert_to_turn_based(game)
    if not (isfinite(game.min_utility()) and isfinite(game.max_utility())):
        raise UnsuitableGame(text, "its returns are not bounded")
    _check_opening(text, game)
    return game


@lru_cache(maxsize=64)
def load_unchanged(text: str) -> Any:
    """Return the game of a game string as OpenSpiel makes it, possibly with simultaneous moves."""
    import pyspiel

    # efg_game and nfg_game read a file, so every path is checked before OpenSpiel opens it.
    for part in text.split("filename=")[1:]:
        path = part.partition(",")[0].rstrip(") ")
        check_path(path, "game")
        if not Path(path).is_file():
            raise ValueError(f"OpenSpiel cannot make {text!r}: the file {path!r} does not exist. Correct its path.")
    short_name = text.partition("(")[0].strip()
    names = pyspiel.registered_names()
    if short_name not in names:
        hint = nearest_name(short_name, names)
        raise ValueError(f"OpenSpiel has no game {short_name!r}.{hint} pyspiel.registered_names() lists all of them.")
    for parameter, size in SIZE_PARAMETER.findall(text):
        # Before OpenSpiel allocates memory for a board of this size.
        if len(size) > 9 or int(size) > MAX_SIZE:
            raise ValueError(
                f"OpenSpiel's {short_name}: {parameter}={size} is out of range; expected at most {MAX_SIZE}."
            )
    for name in REFUSED:
        # A wrapper may hold a game that does not suit.
        if re.search(rf"\b{name}\b", text):
            raise UnsuitableGame(text, REFUSED[name])
    try:
        game = pyspiel.load_game(text)
    except (pyspiel.SpielError, RuntimeError, TypeError, IndexError) as error:
        # OpenSpiel's message may have several lines; the first one names the problem.
        reason = str(error).strip().splitlines()[0].rstrip(".")
        if isinstance(error, IndexError):
            reason = "a parameter is missing"
        example = EXAMPLES.get(short_name, "hex(board_size=4)")
        raise ValueError(f"OpenSpiel cannot make {text!r}: {reason}. Write parameters as in {example!r}.") from None
    if unsuited := unsuitable(game.get_type()):
        raise UnsuitableGame(text, unsuited)
    return game


def unsuitable(kind: Any) -> str | None:
    """Return the reason why no game of this `pyspiel.GameType` can be played as text, or None."""
    import pyspiel

    kinds = pyspiel.GameType
    reasons = (
        (kind.short_name in REFUSED, REFUSED.get(kind.short_name, "")),
        (kind.dynamics == kinds.Dynamics.MEAN_FIELD, "a mean-field game has no players"),
        (
            kind.chance_mode == kinds.ChanceMode.SAMPLED_STOCHASTIC,
            "it draws its chance by itself, so a seed cannot reproduce a hand",
        ),
        # OpenSpiel has such games since 2.0.
        (getattr(kind, "action_structs_only", False), "it does not list its legal actions"),
        (
            not kind.provides_information_state_string
            and not kind.provides_observation_string
            and kind.information != kinds.Information.PERFECT_INFORMATION,
            "it has no text that shows a player's information",
        ),
    )
    return next((reason for applies, reason in reasons if applies), None)


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


def sight(game: Any, state: Any, player: int, view: str = "") -> str:
    """Return OpenSpiel's text for `player`, without escape sequences.

    Args:
        game: The `pyspiel.Game`.
        view: `state`, `observation` or `information_state` (default: the board if nothing is hidden, else the
            player's information state).
    """
    import pyspiel

    kind = game.get_type()
    hidden = kind.information != pyspiel.GameType.Information.PERFECT_INFORMATION
    if not view and kind.provides_information_state_string and (hidden or not kind.provides_observation_string):
        view = "information_state"
    elif not view:
        view = "observation" if kind.provides_observation_string else "state"
    if view == "information_state":
        text = state.information_state_string(player)
    elif view == "observation":
        text = state.observation_string(player)
    else:
        text = str(state)
    return without_escapes(text)


def without_escapes(text: str) -> str:
    """Return OpenSpiel's text without the control sequences of a terminal, such as colors."""
    return _ESCAPES.sub("", text)
