"""Whether two short texts say the same: thefuzz 0.19's `token_set_ratio` above 85, as WebShop's reward asks it."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import lru_cache

THRESHOLD = 85
"""Texts match above it."""

_NOT_WORD = re.compile(r"(?i)\W")
_DROPPED = dict.fromkeys(range(128, 256))
"""What thefuzz takes away before it looks for words: Latin-1 beyond ASCII, and only that."""


@lru_cache(maxsize=1 << 16)
def matches(first: str, second: str) -> bool:
    """Whether the texts' `token_set_ratio` is above `THRESHOLD`."""
    return _compared(_tokens(first), _tokens(second), THRESHOLD) > THRESHOLD


def token_set_ratio(first: str, second: str) -> int:
    """thefuzz 0.19's score from 0 to 100, with Python's difflib below it (as without python-Levenshtein)."""
    return _compared(_tokens(first), _tokens(second), -1)


@lru_cache(maxsize=1 << 14)
def _tokens(text: str) -> frozenset[str]:
    return frozenset(_NOT_WORD.sub(" ", text.translate(_DROPPED)).lower().split())


def _compared(first: frozenset[str], second: frozenset[str], least: int) -> int:
    """The score, or anything not above `least` where the score is not."""
    if not first or not second:
        return 0
    common = first & second
    if common and len(common) == min(len(first), len(second)):
        return 100
    shared = " ".join(sorted(common))
    one = " ".join(filter(None, (shared, " ".join(sorted(first - common)))))
    other = " ".join(filter(None, (shared, " ".join(sorted(second - common)))))
    best = 0
    for pair in ((shared, one), (shared, other), (one, other)):
        best = max(best, _ratio(*pair, max(best, least)))
    return best


def _ratio(first: str, second: str, least: int) -> int:
    """thefuzz's `ratio`, or anything not above `least` where it is not."""
    if not first or not second:
        return 0
    matcher = SequenceMatcher(None, first, second)
    for bound in (matcher.real_quick_ratio, matcher.quick_ratio):
        if round(100 * bound()) <= least:
            return 0
    return round(100 * matcher.ratio())
