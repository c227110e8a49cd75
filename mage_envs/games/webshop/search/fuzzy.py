"""Comparison of two short texts: `token_set_ratio` of thefuzz 0.19 above 85, as in WebShop's reward."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import lru_cache

THRESHOLD = 85
"""Score above which two texts match."""

_NOT_WORD = re.compile(r"(?i)\W")
_DROPPED = dict.fromkeys(range(128, 256))
"""Characters that thefuzz removes before it splits words: Latin-1 beyond ASCII, and no others."""


@lru_cache(maxsize=1 << 16)
def matches(first_text: str, second_text: str) -> bool:
    """Return True if the `token_set_ratio` of the texts is above `THRESHOLD`."""
    return _compare_words(_tokens(first_text), _tokens(second_text), THRESHOLD) > THRESHOLD


def token_set_ratio(first_text: str, second_text: str) -> int:
    """Return the score of thefuzz 0.19 from 0 to 100, computed with difflib (as without python-Levenshtein)."""
    return _compare_words(_tokens(first_text), _tokens(second_text), -1)


@lru_cache(maxsize=1 << 14)
def _tokens(text: str) -> frozenset[str]:
    return frozenset(_NOT_WORD.sub(" ", text.translate(_DROPPED)).lower().split())


def _compare_words(first_words: frozenset[str], second_words: frozenset[str], threshold: int) -> int:
    """Return the score if it is above `threshold`, else any number up to `threshold`."""
    if not first_words or not second_words:
        return 0
    common = first_words & second_words
    # If one set contains the other, the common words equal one of the texts, and the best ratio is 100.
    if common and len(common) == min(len(first_words), len(second_words)):
        return 100
    shared = " ".join(sorted(common))
    first_combined = " ".join(filter(None, (shared, " ".join(sorted(first_words - common)))))
    second_combined = " ".join(filter(None, (shared, " ".join(sorted(second_words - common)))))
    best = 0
    for pair in ((shared, first_combined), (shared, second_combined), (first_combined, second_combined)):
        best = max(best, _ratio(*pair, max(best, threshold)))
    return best


def _percent(common: int, first_text: str, second_text: str) -> int:
    """Return the ratio of two texts with so many common letters, in difflib's arithmetic."""
    return round(100 * (2.0 * common / (len(first_text) + len(second_text))))


def _ratio(first_text: str, second_text: str, threshold: int) -> int:
    """Return the `ratio` of thefuzz if it is above `threshold`, else any number up to `threshold`."""
    # The bounds are much cheaper than the ratio, and most pairs of texts are too different to need it: the common
    # letters are at most the shorter text, and at most those that both have in any order.
    if (
        not first_text
        or not second_text
        or _percent(min(len(first_text), len(second_text)), first_text, second_text) <= threshold
    ):
        return 0
    if (
        _percent(
            sum(min(first_text.count(letter), second_text.count(letter)) for letter in set(first_text)),
            first_text,
            second_text,
        )
        <= threshold
    ):
        return 0
    return round(100 * SequenceMatcher(None, first_text, second_text).ratio())
