"""The prompt styles by name."""

from __future__ import annotations

from collections.abc import Callable

from mage_envs.core import GameSpec
from mage_envs.loading.defaults import fill_in
from mage_envs.loading.imports import load_class
from mage_envs.text.plain import Paper, Plain
from mage_envs.text.prompts import PromptStyle

DEFAULT_STYLE = "plain"
"""Style of prompts unless another one is chosen."""


def _neutral(spec: GameSpec) -> PromptStyle:
    # Imported here, because few runs use it.
    from mage_envs.text.neutral import Neutral

    return Neutral(spec)


def _words(spec: GameSpec) -> PromptStyle:
    # Imported here, because the other styles need no vocabulary.
    from mage_envs.text.words.style import Words

    return Words(spec)


STYLES: dict[str, Callable[[GameSpec], PromptStyle]] = {
    "plain": lambda spec: Plain(),
    "paper": lambda spec: Paper(),
    "neutral": _neutral,
    "words": _words,
}
"""Functions that create a style for a game with this specification."""


def load_style(spec: str) -> PromptStyle:
    """Return a new style of the class that `"module:Class"` refers to; raises like `load_class`."""
    style: PromptStyle = fill_in(load_class(spec, "a prompt style", ("play", "reflect"))(), PromptStyle)
    return style


def as_style(style: str | PromptStyle, spec: GameSpec) -> PromptStyle:
    """Return the style of this name for a game, the class behind `"module:Class"`, or a given style."""
    if not isinstance(style, str):
        given: PromptStyle = fill_in(style, PromptStyle)
        return given
    if ":" in style:
        return load_style(style)
    if style not in STYLES:
        raise ValueError(f"style={style!r} is unknown; choose one of: {', '.join(STYLES)}, or give a PromptStyle.")
    return STYLES[style](spec)
