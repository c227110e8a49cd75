"""Fuzzy matches: the scores of thefuzz 0.19 on 5,000 pairs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mage_envs.games.webshop.search.fuzzy import THRESHOLD, matches, token_set_ratio
from tests.games.webshop.search.golden import golden


def test_scores_and_verdicts_are_those_of_thefuzz() -> None:
    pairs = golden("fuzzy")
    assert len(pairs) == 5000
    assert sum(score > THRESHOLD for _, _, score in pairs) > 1500
    for first_text, second_text, score in pairs:
        assert token_set_ratio(first_text, second_text) == score, (first_text, second_text)
        assert matches(first_text, second_text) == (score > THRESHOLD), (first_text, second_text)


@pytest.mark.parametrize(
    ("first_text", "second_text", "score"),
    [
        ("machine wash", "machine washable", 86),
        ("blue", "('color', 'blue')", 100),
        ("é", "é", 0),  # nothing is left of either
        ("", "", 0),
        ("naïve", "nave", 100),
        ("漢字", "漢字", 100),
        ("BLUE red", "red, blue", 100),
        ("cotton", "wool", 40),
    ],
)
def test_by_example(first_text: str, second_text: str, score: int) -> None:
    assert token_set_ratio(first_text, second_text) == score


@given(st.text(alphabet="ab c,", max_size=25), st.text(alphabet="ab c,", max_size=25))
def test_the_quick_verdict_is_that_of_the_score(first_text: str, second_text: str) -> None:
    assert matches(first_text, second_text) == (token_set_ratio(first_text, second_text) > THRESHOLD)
