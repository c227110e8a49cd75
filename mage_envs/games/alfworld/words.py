"""The words of ALFWorld's texts that the prompt style `words` shows, and the list of them all."""

from __future__ import annotations

from functools import cache

from mage_envs.games.alfworld.scenes import affordances
from mage_envs.text.words.spelling import text_words

_OMITTED = (
    "a an and any are around at in is it looking middle of on quickly room s see some the them there this to you your"
)
OMITTED = frozenset(_OMITTED.split())
"""Words without which a text says the same. They are two fifths of it."""
LARGEST_NUMBER = 60
"""Largest number of an object or a receptacle in the vocabulary."""
_OF_TEXTS = (
    "about anything arrive carrying clean closed cold cool done examine facing find from heat hot loc look move next "
    "normal not nothing off open pick put sliced special task turn two under up using with"
)
_OF_COMMANDS = "clean close cool examine from go heat in in/on inventory look move on open put slice take to use with"


def read_words(observation: str, seat: int) -> tuple[str, ...]:
    """Return the words and numbers of a text in lower case, without those that say nothing."""
    return tuple(word for word in text_words(observation, seat) if word not in OMITTED)


@cache
def all_words() -> tuple[str, ...]:
    """Return the words of all texts and commands, of generated and of official games.

    Raises:
        ImportError: If alfworld is not installed, whose tables list the kinds of objects.
    """
    tables = affordances()
    kinds = {*tables.kinds, *tables.holds}.union(*tables.holds.values(), *tables.actions.values())
    numbers = map(str, range(1, LARGEST_NUMBER + 1))
    words = {*map(str.lower, kinds), *numbers, *_OF_TEXTS.split(), *_OF_COMMANDS.split()}
    return tuple(sorted(words))
