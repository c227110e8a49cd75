"""Terms: equal to Lucene's on odd texts, words cut as Lucene cuts them, and time linear in the text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mage_envs.games.webshop.search import analysis
from mage_envs.games.webshop.search.analysis import MAX_WORD, STOP_WORDS, words
from mage_envs.games.webshop.search.stemmer import stem
from tests.games.webshop.search.golden import golden
from tests.games.webshop.search.terms import terms


def test_terms_are_lucenes() -> None:
    expected = golden("terms")
    assert len(expected) == 3600
    assert [(text, terms(text)) for text, _ in expected] == [tuple(pair) for pair in expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("John's O’Neill’s boys' l'eau", ["john", "o’neil", "boi", "l'eau"]),
        ("1,299.99 3.5mm a.b a..b x:y 1:2", ["1,299.99", "3.5mm", "a.b", "b", "x:y", "1", "2"]),
        ("snake_case _x_ ___", ["snake_cas", "_x_"]),
        ("漢字 ひら カタカナ 한국어", ["漢", "字", "ひ", "ら", "カタカナ", "한국어"]),
        ("👍🏽 🇩🇪🇫🇷 #️⃣ # *", ["👍🏽", "🇩🇪", "🇫🇷", "#️⃣"]),
        ("The AND to", []),
        ("İstanbul ΣΣ", ["istanbul", "σσ"]),
    ],
)
def test_rules_by_example(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


def test_porter_and_its_two_later_rules() -> None:
    pairs = {"possibly": "possibl", "apology": "apolog", "relational": "relat", "skies": "ski", "feed": "feed"}
    assert {word: stem(word) for word in pairs} == pairs
    assert stem("archaeology") == "archaeolog"
    assert [stem(word) for word in ("", "a", "is", "ies", "sss")] == ["", "a", "is", "i", "sss"]


def test_long_words_are_cut_at_255_units() -> None:
    assert [len(word) for word in words("a" * 600)] == [255, 255, 90]
    assert [len(word) for word in words("ü" * 256)] == [255, 1]
    assert [len(word) for word in words("𝒜" * 200)] == [127, 73]  # two units each


@pytest.mark.parametrize(
    "piece", ["_", "_a", "a.", "1,", "é", "_\u0300", "é_", "👍", "👩\u200d", "\u200d", "🇩", "#\u20e3", "ก"]
)
def test_no_text_takes_more_than_linear_time(piece: str) -> None:
    text = piece * (100_000 // len(piece))
    assert all(len(word) <= MAX_WORD for word in words(text))


@given(st.text(max_size=60))
def test_words_are_parts_of_the_text_in_order(text: str) -> None:
    position = 0
    for word in words(text):
        position = text.index(word, position) + len(word)
    assert not STOP_WORDS & {word.lower() for word in words(text) if word.lower() in terms(text)}


@given(st.text(alphabet="aB1_.,:;'’ -#", max_size=40))
def test_ascii_text_is_read_alike_in_both_ways(text: str) -> None:
    assert words(text + " é")[:-1] == words(text)


def test_no_group_is_possessive() -> None:
    """Python 3.11.2, which Debian 12 has, finds empty matches of such groups, so that a catalogue was never built."""
    for pattern in (analysis._ASCII_WORD, analysis._TOKEN, analysis._EMOJI):
        assert not re.search(r"\)(?:[*+?]|\{[\d,]+\})\+", pattern.pattern)
        assert pattern.match("") is None
