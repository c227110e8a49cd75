"""The prompt styles by name."""

from __future__ import annotations

from collections.abc import Callable

from mage_envs.text.prompts import PromptStyle, Prose
from mage_envs.text.words import KuhnWords

STYLES: dict[str, Callable[[], PromptStyle]] = {"prose": Prose, "kuhn-words": KuhnWords}


def as_style(style: str | PromptStyle) -> PromptStyle:
    """A style by name, or a user's own."""
    if not isinstance(style, str):
        return style
    if style not in STYLES:
        raise ValueError(f"style={style!r} is unknown; choose one of: {', '.join(STYLES)}, or give a PromptStyle.")
    return STYLES[style]()
