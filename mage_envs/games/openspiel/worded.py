"""Wordings: the rules, actions and symbols of OpenSpiel's games as data, in the TOML files of `wordings/`.

The files are read when the first game of OpenSpiel is made. A table has the game's short name and these keys:

* `rules`, `action`, `symbols`, `returns`: sentences; `{name}` is a parameter of the game.
* `values.NAME`: replaces the values of a parameter by words or sentences.
* `free`: parameters that change neither the rules nor the texts.
* `name`: name of the game; `unit`: unit of the returns; `seats`: name of each seat.
* `view`: OpenSpiel's text that shows the position: `state`, `observation` or `information_state`.
* `action_edits`, `view_edits`: pairs of a regular expression and its replacement, applied to OpenSpiel's text.

A game whose parameters differ from OpenSpiel's defaults in a way that its sentences do not mention has no wording.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from string import Formatter
from typing import Any

TECHNICAL = frozenset(
    {
        "ansi_color_output",
        "egocentric",
        "egocentric_obs_tensor",
        "instances_file",
        "obs_type",
        "obstype",
        "observation_type",
        "plain_obs_tensor",
        "rng_seed",
        "string_rep",
    }
)
"""Parameters that no rules mention, because they are technical or the rules state them in words."""
_SENTENCES = ("rules", "action", "symbols", "returns")

Edits = tuple[tuple[re.Pattern[str], str], ...]
"""Regular expressions with their replacements, in the order in which they are applied."""


@dataclass(frozen=True)
class WordedGame:
    """The words of one game with its parameters filled in."""

    rules: str
    """Sentences on the moves and on the end of the game."""
    action: str
    """Sentences on the form of an action, with examples in quotes."""
    symbols: str = ""
    """Sentences on the symbols of the position."""
    name: str = ""
    """Name of the game (default: OpenSpiel's)."""
    returns: str = ""
    """Sentences on the points (default: derived from OpenSpiel's bounds)."""
    unit: str = "points"
    seats: tuple[str, ...] = ()
    view: str = ""
    action_edits: Edits = ()
    view_edits: Edits = ()


@lru_cache(maxsize=1)
def game_wordings() -> Mapping[str, Mapping[str, Any]]:
    """Return the tables of all games in `wordings/`, by short name."""
    folder = files(__package__) / "wordings"
    tables: dict[str, Mapping[str, Any]] = {}
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        tables |= tomllib.loads(file.read_text("utf-8"))
    return tables


def parameters_of(game: Any) -> dict[str, Any]:
    """Return all parameters of a game. OpenSpiel omits those that it has not read yet, so its defaults fill them in."""
    return {**game.get_type().parameter_specification, **game.get_parameters()}


def wording_of(game: Any) -> WordedGame | None:
    """Return the wording of a `pyspiel.Game`, or None if it has none that fits its parameters."""
    table = game_wordings().get(str(game.get_type().short_name))
    if table is None:
        return None
    parameters, defaults = parameters_of(game), game.get_type().parameter_specification
    sentences = {key: table[key] for key in _SENTENCES if key in table}
    mentioned = {name for text in sentences.values() for _, name, _, _ in Formatter().parse(text) if name}
    known_names = mentioned | TECHNICAL | set(table.get("free", ()))
    if any(name not in known_names and value != defaults.get(name) for name, value in parameters.items()):
        return None
    words: dict[str, str] = {}
    for name in mentioned:
        choices = table.get("values", {}).get(name)
        value = parameters[name]
        if choices is None:
            words[name] = _in_words(value)
        elif str(value) in choices:
            words[name] = choices[str(value)]
        else:
            return None
    return WordedGame(
        # A choice may be empty, which would leave two blanks.
        **{key: " ".join(text.format_map(words).split()) for key, text in sentences.items()},
        **{key: table[key] for key in ("name", "unit", "view") if key in table},
        seats=tuple(table.get("seats", ())),
        action_edits=_edits(table.get("action_edits", ())),
        view_edits=_edits(table.get("view_edits", ())),
    )


def _in_words(value: Any) -> str:
    """Return a parameter as the rules write it. OpenSpiel separates the items of a list by semicolons."""
    if isinstance(value, float):
        return f"{value:g}"
    items = str(value).strip("[]").split(";")
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def _edits(pairs: Iterable[tuple[str, str]]) -> Edits:
    return tuple((re.compile(pattern, re.MULTILINE), replacement) for pattern, replacement in pairs)


def apply_edits(text: str, edits: Edits) -> str:
    """Return the text after all edits."""
    for pattern, replacement in edits:
        text = pattern.sub(replacement, text)
    return text
