"""The nouns of a product's title, which WebShop's reward compares.

The original uses spaCy's statistical tagger, and `spacy_nouns` returns its result if spaCy's model is installed.
`nouns` needs no model, because the tagger marks nearly every capitalized word of a title as a noun or a name:

- A capitalized word is a noun unless it is a function word.
- A word in lower case is a noun unless it is a function word, a common adjective or verb, or has their ending.
- A word that starts with a digit is not a noun.

The reward only checks if the share of common nouns is 0, less than 0.1, or more than 0.2. This rarely depends on single
words.
"""

from __future__ import annotations

import importlib
import re
import tomllib
from collections.abc import Callable
from functools import lru_cache
from importlib.resources import files
from typing import Any

_TOKEN = re.compile(r"[^\W_]+(?:'(?![sS]\b)[^\W_]+)*")

_WORDS = tomllib.loads(files(__package__).joinpath("title_words.toml").read_text("utf-8"))
_FUNCTION_WORDS, _ADJECTIVES, _VERBS = (
    frozenset(_WORDS[kind].split()) for kind in ("function_words", "adjectives", "verbs")
)
_ADJECTIVE_ENDINGS = ("able", "ible", "less", "ful", "ous", "ive", "ly", "ed", "proof", "free", "friendly")
_LONG_ENOUGH = 7
"""Minimum number of letters for `_ADJECTIVE_ENDINGS`. Shorter words are mostly nouns (cable, seed, olive, jelly)."""
_NOUNS = frozenset(["adhesive", "archive", "assembly", "butterfly", "locomotive", "mouthful", "timetable", "vegetable"])


@lru_cache(maxsize=1 << 14)
def nouns(title: str) -> tuple[str, ...]:
    """Return the nouns and names of a title in lower case and in order, with repetitions."""
    return tuple(word.lower() for word in _TOKEN.findall(title.replace("\u2019", "'")) if _is_noun(word))


def _is_noun(word: str) -> bool:
    if word[0].isdigit() or word.lower() in _FUNCTION_WORDS:
        return False
    if word[0].isupper():
        return True
    if len(word) == 1 or word in _ADJECTIVES or word in _VERBS:
        return False
    return len(word) < _LONG_ENOUGH or word in _NOUNS or not word.endswith(_ADJECTIVE_ENDINGS)


def spacy_nouns(model: str = "en_core_web_sm") -> Callable[[str], tuple[str, ...]]:
    """Return the original's version of `nouns`: spaCy's tokens with the tag noun or proper noun.

    Raises ImportError if spaCy or its model is not installed.
    """
    # spaCy raises OSError if the model is missing.
    try:
        tag: Callable[[str], Any] = importlib.import_module("spacy").load(model)
    except (ImportError, OSError) as error:
        raise ImportError(
            f"The spaCy tagger requires spaCy and its model. Install them with: pip install spacy && "
            f"python -m spacy download {model}"
        ) from error

    def tag_title(title: str) -> tuple[str, ...]:
        return tuple(token.text.lower() for token in tag(title) if token.pos_ in ("NOUN", "PROPN"))

    return tag_title
