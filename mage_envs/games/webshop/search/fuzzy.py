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
def matches(first: str, second: str) -> bool:
    """Return True if the `token_set_ratio` of the texts is above `THRESHOLD`."""
    return _compared(_tokens(first), _tokens(second), THRESHOLD) > THRESHOLD


def token_set_ratio(first: str, second: str) -> int:
    """Return the score of thefuzz 0.19 from 0 to 100, computed with difflib (as without python-Levenshtein)."""
    return _compared(_tokens(first), _tokens(second), -1)


@lru_cache(maxsize=1 << 14)
def _tokens(text: str) -> frozenset[str]:
    return frozenset(_NOT_WORD.sub(" ", text.translate(_DROPPED)).lower().split())


def _compared(first: frozenset[str], second: frozenset[str], least: int) -> int:
    """Return the score if it is above `least`, else any number up to `least`."""
    if not first or not second:
        return 0
    common = first & second
    # If one set contains the other, the common words equal one of the texts, and the best ratio is 100.
    if common and len(common) == min(len(first), len(second)):
        return 100
    shared = " ".join(sorted(common))
    one = " ".join(filter(None, (shared, " ".join(sorted(first - common)))))
    other = " ".join(filter(None, (shared, " ".join(sorted(second - common)))))
    best = 0
    for pair in ((shared, one), (shared, other), (one, other)):
        best = max(best, _ratio(*pair, max(best, least)))
    return best


def _percent(common: int, first: str, second: str) -> int:
    """Return the ratio of two texts with so many common letters, in difflib's arithmetic."""
    return round(100 * (2.0 * common / (len(first) + len(second))))


def _ratio(first: str, second: str, least: int) -> int:
    """Return the `ratio` of thefuzz if it is above `least`, else any number up to `least`."""
    # The bounds are much cheaper than the ratio, and most pairs of texts are too different to need it: the common
    # letters are at most the shorter text, and at most those that both have in any order.
    if not first or not second or _percent(min(len(first), len(second)), first, second) <= least:
        return 0
    if _percent(sum(min(first.count(one), second.count(one)) for one in set(first)), first, second) <= least:
        return 0
    return round(100 * SequenceMatcher(None, first, second).ratio())
