"""Every id with every fitting opponent, for the contract tests; the rules are those of `mage_envs.testing`."""

from __future__ import annotations

import inspect
from typing import Any

from mage_envs import Game, list_games, load_game, make_game, testing
from mage_envs.opponents import list_opponents, make_opponent
from mage_envs.opponents.search.openspiel import DoesNotSuit
from mage_envs.testing import GARBAGE, transcript
from mage_envs.tree import is_enumerable

__all__ = [
    "FEW",
    "GARBAGE",
    "check_id",
    "enumerable_games",
    "games_with_opponents",
    "opponents_of",
    "pairs",
    "short_game",
    "short_options",
    "transcript",
]

OPTIONS: dict[str, dict[str, Any]] = {
    "ALFWorld": {"size": "tiny"},
    "ALFWorldHouse": {"turns": 5},
    "WebShop": {"size": "tiny"},
}
"""Options with which a game is quick to check."""
FEW: dict[str, dict[str, Any]] = {
    # Each task of each other house would be compiled first.
    "ALFWorldHouse": {"opponent": {"house:train0": 1.0, "house:eval0": 1.0}},
    "Breakthrough": {"rows": 4, "columns": 4},
}
"""Options with which a game is quicker still, for checks of options that do not depend on them."""
HEAVY = {"mcts": "mcts:20", "ismcts": "ismcts:5", "cfr": "cfr:3", "cfr-argmax": "cfr-argmax:3"}
"""Opponents whose work is their argument, with a small one."""
SHORT = {"rounds": 3, "offers": 3, "sides": 3, "rows": 4, "columns": 4}
"""Options of games with opponents, by their names, with which hands are short and trees are small."""


def short_options(name: str) -> dict[str, int]:
    """Return those of the options `SHORT` that a game has."""
    parameters = inspect.signature(load_game(name)).parameters
    return {option: value for option, value in SHORT.items() if option in parameters}


def short_game(name: str) -> Game:
    """Return a game with its options of `SHORT`."""
    return make_game(name, **short_options(name))


def games_with_opponents() -> list[str]:
    """Return every registered game of several players, without the adapter, whose options decide which game it is."""
    return [name for name in list_games() if load_game(name).spec.players > 1 and name != "OpenSpiel"]


def enumerable_games() -> list[str]:
    """Return the games with opponents whose short form has a tree that exact solvers can walk."""
    return [name for name in games_with_opponents() if is_enumerable(short_game(name))]


def suits(name: str, game: str) -> bool:
    """Return True if an opponent of a game with several forms plays the form without options."""
    try:
        make_opponent(name, make_game(game))
    except DoesNotSuit:
        return False
    return True


def opponents_of(game: str) -> list[str]:
    """Every registered opponent that fits, searches with a small budget; one that is exchanged for another."""
    names = [name for name in (HEAVY.get(name, name) for name in list_opponents(game)) if suits(name, game)]
    return [*names, f"switch:{names[0]},{names[-1]},1"]


def pairs() -> list[tuple[str, str]]:
    """(game, opponent) for everything registered that has a seat for one."""
    return [(game, name) for game in list_games() if load_game(game).spec.players > 1 for name in opponents_of(game)]


def check_id(env_id: str, **kwargs: Any) -> None:
    """The whole contract of one id."""
    testing.check_id(env_id, **(OPTIONS.get(env_id.split("/")[1].split("-")[0], {}) | kwargs))
