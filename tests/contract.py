"""Every id with every fitting opponent, for the contract tests; the rules are those of `mage_envs.testing`."""

from __future__ import annotations

from typing import Any

from mage_envs import list_games, load_game, make_game, testing
from mage_envs.testing import GARBAGE, transcript
from opponents import list_opponents, make_opponent
from opponents.search.openspiel import DoesNotSuit

__all__ = ["GARBAGE", "check_id", "opponents_of", "pairs", "transcript"]

OPTIONS: dict[str, dict[str, Any]] = {"ALFWorld": {"size": "tiny"}, "WebShop": {"size": "tiny"}}
"""Options with which a game is quick to check."""
HEAVY = {"mcts": "mcts:20", "ismcts": "ismcts:5", "cfr": "cfr:3", "cfr-argmax": "cfr-argmax:3"}
"""Opponents whose work is their argument, with a small one."""


def suits(name: str, game: str) -> bool:
    """Whether an opponent of a game whose form its options decide plays the form without options."""
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
