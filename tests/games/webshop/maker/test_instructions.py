"""Instructions: as people write them, within a tolerance of what 12,087 of theirs show."""

from statistics import mean, median

import pytest

from mage_envs.games.webshop.catalogue_maker.draws import Draws
from mage_envs.games.webshop.catalogue_maker.instructions import USUAL, instruction
from mage_envs.games.webshop.catalogue_maker.tables import product_types, word_lists
from tests.games.webshop.maker.catalogues import catalogue, make


@pytest.fixture(scope="module")
def goals():
    return catalogue("medium", 1).goals


@pytest.fixture(scope="module")
def usual(goals):
    """2,000 goals that use the usual ways to ask."""
    return [goal for goal in goals if goal.split != "ood_phrase"][:2000]


def share(goals, holds):
    return sum(map(holds, goals)) / len(goals)


def starts(*openings):
    return lambda goal: goal.instruction.startswith(openings)


def test_length_is_that_of_people(usual):
    lengths = sorted(len(goal.instruction.split()) for goal in usual)
    assert 12 <= median(lengths) <= 15
    assert 13 <= mean(lengths) <= 15.8
    assert 19 <= lengths[int(0.9 * len(lengths))] <= 23


def test_people_speak_of_themselves(usual):
    assert 0.86 < share(usual, starts("i ", "i'm", "im ", "i'd")) < 0.94


@pytest.mark.parametrize(
    ("openings", "people"),
    [
        (("i am looking",), 0.28),
        (("im looking for", "i'm looking for"), 0.15),
        (("i would like",), 0.12),
        (("i want",), 0.11),
        (("i need ",), 0.13),
    ],
)
def test_openers_come_as_often_as_people_use_them(usual, openings, people):
    assert share(usual, starts(*openings)) == pytest.approx(people, abs=0.03)


@pytest.mark.parametrize("word", ["color", "size"])
def test_options_are_named_as_often_as_by_people(usual, word):
    assert share(usual, lambda goal: word in goal.instruction.replace("colored", "color").split()) == pytest.approx(
        0.16, abs=0.04
    )


def test_a_price_is_hardly_ever_spoken_of(goals):
    assert share(goals, lambda goal: "price" in goal.instruction) < 0.01


def test_all_is_lower_case_and_filled_in(goals):
    for goal in goals:
        assert goal.instruction == goal.instruction.lower().strip(" .")
        assert "{" not in goal.instruction
        assert "  " not in goal.instruction


def test_the_price_clause_is_the_official_one(goals):
    goal = goals[0]
    assert goal.text == f"{goal.instruction}, and price lower than {goal.price_upper:.2f} dollars"
    assert all(goal.price_upper % 10 == 0 and 10 <= goal.price_upper <= 990 for goal in goals)


def test_only_ood_phrase_speaks_otherwise(goals):
    usual = tuple(opener.removesuffix("{n}") for _, opener in word_lists("phrases")["usual"]["openers"])
    other = tuple(opener.removesuffix("{n}") for _, opener in word_lists("phrases")["held_out"]["openers"])
    assert len(usual) == 30
    clean = make(2000, 5, typos=0.0).goals
    for goal in clean:
        assert goal.instruction.startswith(other if goal.split == "ood_phrase" else usual), goal.instruction
    unusual = ("boasting ", "do not forget ", "of the sort that ", "as long as ", "preferably the ")
    assert not any(word in goal.instruction for goal in clean if goal.split != "ood_phrase" for word in unusual)
    assert any(word in goal.instruction for goal in clean if goal.split == "ood_phrase" for word in unusual)


def test_typos_are_a_knob():
    clean, few, many = (make(1000, 2, typos=typos).goals for typos in (0.0, 0.04, 1.0))
    assert [goal.attributes for goal in few] == [goal.attributes for goal in many]

    def slips(goals):
        known = {word for goal in clean for word in goal.instruction.split()}
        return share(goals, lambda goal: any(word not in known for word in goal.instruction.split()))

    assert slips(clean) == 0.0
    assert 0.02 < slips(few) < 0.06
    assert slips(many) > 0.85


def test_what_is_wanted_is_said():
    kind = next(kind for kind in product_types() if kind.name == "women's ankle boots")
    fur = next(a for group in kind.groups for a in group.values if a.name == "faux fur")
    for number in range(50):
        text = instruction(Draws(0, number), kind, [fur], [("color", "navy blue"), ("size", "8")], USUAL, 0.0)
        assert "ankle boots" in text
        assert "navy blue" in text
        assert "8" in text
        assert any(wording.plural in text for wording in fur.wordings)


def test_synonyms_and_digits_are_used(goals):
    named = share(goals, lambda goal: all(attribute in goal.instruction for attribute in goal.attributes))
    assert 0.3 < named < 0.8
    texts = " ".join(goal.instruction for goal in goals)
    assert "pack of 3" in texts
    assert "pack of three" in texts
