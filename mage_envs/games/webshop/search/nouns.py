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
from collections.abc import Callable
from functools import lru_cache
from typing import Any

_TOKEN = re.compile(r"[^\W_]+(?:'(?![sS]\b)[^\W_]+)*")

_FUNCTION_WORDS_TEXT = """
a about above across after against all along also am among an and any anybody anyone anything are around as at be
because been before behind being below beneath beside besides between beyond both but by can cannot could did do does
during each either else every everyone everything except few for from had has have he her here hers him his how
however i if in inside into is it its just least less many may me might more most much must my near neither no none
nor not of off on once one only onto or other others our ours out outside over own per perhaps plus quite rather same
several shall she should since so some such than that the their theirs them then there these they this those though
through throughout to together too toward towards under until up upon us very via was we well were what when where
whether which while who whom whose why will with within without would yet you your yours two three four five six seven
eight nine ten eleven twelve hundred thousand
"""
_FUNCTION_WORDS = frozenset(_FUNCTION_WORDS_TEXT.split())

_ADJECTIVES_TEXT = """
adjustable adult available baked best better big black blue brand bright brown casual classic clean clear cold
comfortable cool cordless cute daily dark deep different double dry easy electric elegant extra faux fine firm flat
free fresh friendly full gentle genuine gluten gold good gray great green grey handmade happy hard heavy high hot huge
ideal indoor instant large light little long loose low lower matte medium mini modern multi natural neutral new nice
nude old open orange organic outdoor perfect pink plain portable proof pure purple quick rapid raw real red rich ripe
rustic safe sensitive sharp sheer short silver simple single slim small smart smooth soft solid special square
stainless standard stretchy strong super sweet tall thick thin tight tiny top traditional true universal unscented
vegan vintage warm washable waterproof wet white whole wide wild wireless wooden yellow young
"""
_ADJECTIVES = frozenset(_ADJECTIVES_TEXT.split())

_VERBS_TEXT = """
add bring buy check choose clip come comes enjoy fit fits fitted fold folds get gets give gives go goes help helps
hold holds include included includes keep keeps let lets look looks made make makes need needs offer offers protect
protects provide provides pull put reduce reduces remove removes run runs see stay stays suit suits take takes turn
use used uses wear wears work works
"""
_VERBS = frozenset(_VERBS_TEXT.split())

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

    def tagged(title: str) -> tuple[str, ...]:
        return tuple(token.text.lower() for token in tag(title) if token.pos_ in ("NOUN", "PROPN"))

    return tagged
