"""Nouns of titles, and colours of options."""

from __future__ import annotations

import sys

import pytest

from mage_envs.games.webshop.reward import COLOURS, normalize_colour
from mage_envs.games.webshop.search.nouns import nouns, spacy_nouns


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("HDMI Cable with Nylon Sleeve for Game Consoles", "hdmi cable nylon sleeve game consoles"),
        ("women's long sleeve cotton t-shirt with pockets", "women sleeve cotton shirt pockets"),
        ("Men’s Shoes & Socks, 2 Pairs (10x12 5.5oz)", "men shoes socks pairs"),
        ("cable cable Cable", "cable cable cable"),
        ("seed jelly olive vegetable adjustable expensive", "seed jelly olive vegetable"),
        ("washable waterproof gluten-free quickly used", ""),
        ("", ""),
    ],
)
def test_nouns(title: str, expected: str) -> None:
    assert nouns(title) == tuple(expected.split())


def test_a_missing_tagger_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(ImportError, match="python -m spacy download en_core_web_sm"):
        spacy_nouns()


@pytest.mark.parametrize(
    ("value", "colour"),
    [
        ("black forest", "black"),
        ("violet lavender", "lavender"),
        ("steelivy fuchsia", "fuchsia"),
        ("123alabaster", "alabaster"),
        ("webshop", "webshop"),
        ("dark red", "dark"),
        ("charcoal black", "black"),
        ("shared", "red"),
        ("", ""),
    ],
)
def test_colours(value: str, colour: str) -> None:
    assert normalize_colour(value) == colour


def test_the_list_decides_by_its_order() -> None:
    assert len(COLOURS) == len(set(COLOURS)) == 102
    assert list(COLOURS) == sorted(COLOURS)
