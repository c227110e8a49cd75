"""Information states and actions as words: what the compact prompt style and its vocabulary are made of."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

WordsOfState = Callable[[str, int], Sequence[str]]
"""(information state, seat) to the words of what that player knows, in a fixed vocabulary, none with a blank."""
_BETWEEN = re.compile(r"\W+")


def split_at_blanks(information_state: str, seat: int) -> tuple[str, ...]:
    """The words of information states that are words already."""
    return tuple(information_state.split())


def as_word(text: str) -> str:
    """An action's text as one word: `offer 3` is `offer-3`, `(2, 2)` is `2-2`."""
    return _BETWEEN.sub("-", text).strip("-")


def said(action: str, own: bool) -> str:
    """A move as a word, one's own or an opponent's."""
    return as_word(action) if own else f"opp-{as_word(action)}"
