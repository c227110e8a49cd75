"""The terms of a text, as documents and queries are read."""

from __future__ import annotations

from mage_envs.games.webshop.search.analysis import term, words


def terms(text: str) -> list[str]:
    """The search terms of a text, in order and with repeats."""
    return [word_term for word in words(text) if (word_term := term(word)) is not None]
