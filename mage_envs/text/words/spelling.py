"""Words for information states and actions, used by the compact prompt style and its vocabulary."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

WordsOfState = Callable[[str, int], Sequence[str]]
"""Function from (information state, seat) to the words of the player's knowledge: a fixed vocabulary, no blanks."""

SpelledActions = Callable[[str, Sequence[str]], Mapping[str, str]]
"""Function from (observation, legal actions) to the actions among which a constrained model chooses, with the words of
each. Actions of any text, such as searches, may be added."""


@dataclass(frozen=True)
class ObservationWords:
    """Words of a game whose observations are texts or boards. The style `words` shows each observation whole."""

    read: WordsOfState
    """Module-level function from (observation, seat) to its words."""
    vocabulary: tuple[str, ...] = ()
    """All words of the observations and of the legal actions; empty if they are those of random play."""
    spell: SpelledActions | None = None
    """Module-level function of the actions that have other words than their own, or None."""


_BETWEEN = re.compile(r"\W+")


def split_at_blanks(information_state: str, seat: int) -> tuple[str, ...]:
    """Return the words of an information state that consists of words."""
    return tuple(information_state.split())


def as_word(text: str) -> str:
    """Return an action's text as one word: `offer 3` becomes `offer-3`, `(2, 2)` becomes `2-2`."""
    return _BETWEEN.sub("-", text).strip("-")


def move_word(action: str, is_own: bool) -> str:
    """Return a move as a word, with the prefix `opp-` if an opponent made it."""
    return as_word(action) if is_own else f"opp-{as_word(action)}"


_WORD = re.compile(r"[a-z]+|[0-9]+")


def text_words(observation: str, seat: int) -> tuple[str, ...]:
    """Return the words and numbers of a text in lower case, without punctuation."""
    return tuple(_WORD.findall(observation.lower()))
