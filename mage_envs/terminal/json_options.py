"""Options that a command line takes as a JSON object, each mistake told in one line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mage_envs.core import Game
from mage_envs.registry import make_game

EXAMPLE = '{"reveal": "always"}'


def read_object(flag: str, text: str | None, example: str = EXAMPLE) -> dict[str, Any]:
    """The object in `text`, which `flag` was given; empty for None. Raises ValueError that shows `example`."""
    if text is None:
        return {}
    try:
        read = json.loads(text, object_pairs_hook=lambda pairs: _once(flag, pairs))
    except json.JSONDecodeError as error:
        raise ValueError(f"{flag} is not JSON: {error}. Write it as '{example}'.") from error
    if not isinstance(read, dict):
        raise ValueError(f"{flag} must be a JSON object, as in '{example}', got {text}.")
    return read


def _once(flag: str, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An object of these pairs, each key of which stands there once."""
    found = dict(pairs)
    for name in found:
        if sum(name == one for one, _ in pairs) > 1:
            raise ValueError(f"{flag} names {name!r} twice; leave one of them out.")
    return found


def game_with(name: str, options: Mapping[str, Any]) -> Game:
    """The game with these options. Raises ValueError where it does not take them."""
    try:
        return make_game(name, **options)
    except TypeError as error:
        raise ValueError(str(error)) from error
