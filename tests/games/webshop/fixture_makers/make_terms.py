"""Golden terms of real Lucene for odd texts, and for the vocabulary of the built-in catalogue with many endings.

    python -m tests.games.webshop.fixture_makers.make_terms tests/games/webshop/search/fixtures

Needs what `lucene.py` names. The file holds JSON, compressed by xz: a list of (text, terms).
"""

from __future__ import annotations

import argparse
import json
import lzma
from pathlib import Path

import numpy as np

from tests.games.webshop.fixture_makers import odd_texts
from tests.games.webshop.fixture_makers.lucene import Analyser

STEMMED = 3000
_ENDINGS_TEXT = """
s es ies sses ed eed ing y ational tional enci anci izer bli alli entli eli ousli ization ation ator alism iveness
fulness ousness aliti iviti biliti logi icate ative alize iciti ical ful ness al ance ence er ic able ible ant ement
ment ent ion sion tion ou ism ate iti ous ive ize e l ll ss at bl iz 's
"""
_ENDINGS = _ENDINGS_TEXT.split()


def invent_words() -> list[str]:
    """Words of drawn letters with one to three endings that the stemmer has rules for."""
    rng = np.random.default_rng(4)

    def letters(among: str, count: int) -> list[str]:
        return [among[int(rng.integers(len(among)))] for _ in range(count)]

    words = []
    for _ in range(STEMMED):
        start = "".join(
            consonant + vowel for consonant, vowel in zip(letters("bcdfglmnprstwxyz", 3), letters("aeiouy", 3))
        )
        endings = [_ENDINGS[int(rng.integers(len(_ENDINGS)))] for _ in range(int(rng.integers(1, 4)))]
        words.append(start[int(rng.integers(6)) :] + "".join(endings))
    return words


def main() -> None:
    parser = argparse.ArgumentParser(description="Golden terms of real Lucene.")
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    analyser = Analyser()
    terms_by_text = [(text, analyser.terms(text)) for text in (*odd_texts.strings(), *invent_words())]
    stored = json.dumps(terms_by_text, ensure_ascii=False, separators=(",", ":")).encode()
    (folder / "terms.json.xz").write_bytes(lzma.compress(stored, preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main()
