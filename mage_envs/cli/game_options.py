"""Options of games on the command line, with an error of one line for each mistake."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mage_envs.core import Game
from mage_envs.registry import make_game

EXAMPLE = '{"reveal": "always"}'
FLAG = "--game-option"


def read_game_options(texts: Sequence[str], flag: str = FLAG) -> dict[str, Any]:
    """Return the options of `reveal=always` and `rounds=3`: a value is JSON if it parses, else text.

    `flag` is the name of the command's option, for errors.

    Raises:
        ValueError: If a text has no name or no equals sign, or if a name is repeated.
    """
    options: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name.isidentifier() or not equals:
            raise ValueError(f"{flag} {text!r} must have the form NAME=VALUE, such as {flag} reveal=always.")
        if name in options:
            raise ValueError(f"{flag} names {name!r} twice. Remove one of them.")
        try:
            options[name] = json.loads(value, object_pairs_hook=lambda pairs: _once(flag, pairs))
        except json.JSONDecodeError:
            options[name] = value
    return options


def as_flags(options: Mapping[str, Any]) -> list[str]:
    """Return the words of a command line for these options."""
    words = []
    for name, value in options.items():
        text = value if isinstance(value, str) else json.dumps(value)
        if read_game_options([f"{name}={text}"])[name] != value:
            # A text that would be read as JSON, such as 3, needs its quotes.
            text = json.dumps(value)
        words += [FLAG, f"{name}={text}"]
    return words


def read_object(flag: str, text: str | None, example: str = EXAMPLE) -> dict[str, Any]:
    """Parse the value of an option.

    Args:
        flag: Name of the option, for errors.
        text: Value of the option, or None if it was not used.
        example: Valid value, for errors.

    Returns:
        The JSON object, empty if `text` is None.

    Raises:
        ValueError: If the text is not a JSON object, or if an object repeats a key.
    """
    if text is None:
        return {}
    try:
        # The hook sees repeated keys, of which json.loads would silently keep the last one.
        read = json.loads(text, object_pairs_hook=lambda pairs: _once(flag, pairs))
    except json.JSONDecodeError as error:
        raise ValueError(f"{flag} is not JSON: {error}. Write it as '{example}'.") from error
    if not isinstance(read, dict):
        raise ValueError(f"{flag} must be a JSON object, as in '{example}', got {text}.")
    return read


def _once(flag: str, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs as a dict. Raises ValueError if a key occurs twice."""
    options = dict(pairs)
    for name in options:
        if sum(name == key for key, _ in pairs) > 1:
            raise ValueError(f"{flag} names {name!r} twice. Remove one of them.")
    return options


def game_with(name: str, options: Mapping[str, Any]) -> Game:
    """Return the game with these options. Raises ValueError if it does not accept them."""
    try:
        return make_game(name, **options)
    except TypeError as error:
        raise ValueError(str(error)) from error
