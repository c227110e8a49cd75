"""The terms of a text, as documents and queries are read."""

from __future__ import annotations

from mage_envs.games.webshop.search.analysis import term, words


def terms(text: str) -> list[str]:
    """The search terms of a text, in order and with repeats."""
    return [found for word in words(text) if (found := term(word)) is not None]
