"""The content of one game file (`game.tw-pddl`), read and checked for form."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from mage_envs.files.bounded import parse_json, read_named
from mage_envs.games.alfworld.errors import GameFileError, describe

GameLike = Mapping[str, object] | str | os.PathLike[str]
"""Content of a game file, or its path."""


class GameText(NamedTuple):
    """The three texts of a game."""

    domain: str
    problem: str
    grammar: str
    source: str
    """Origin of the texts, for error messages."""


def read_game(game: GameLike) -> GameText:
    """Return the texts of `game`. Raise GameFileError."""
    if isinstance(game, Mapping):
        return _texts(game, "The given mapping")
    path = Path(game)
    try:
        content = parse_json(read_named(path))
    except OSError as error:
        raise GameFileError(str(path), f"it cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise GameFileError(str(path), f"it is not valid JSON ({describe(error)})") from error
    if not isinstance(content, Mapping):
        raise GameFileError(str(path), f"it must contain a JSON object, got {type(content).__name__}")
    return _texts(content, str(path))


def _texts(content: Mapping[str, object], source: str) -> GameText:
    def text(key: str) -> str:
        value = content.get(key)
        if not isinstance(value, str) or not value.strip():
            raise GameFileError(source, f"the key {key!r} is missing, empty or not a string")
        return value

    return GameText(text("pddl_domain"), text("pddl_problem"), text("grammar"), source)
