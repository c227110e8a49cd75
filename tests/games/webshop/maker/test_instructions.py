"""Instructions: as people write them, within a tolerance of what 12,087 of theirs show."""

from statistics import mean, median

import pytest

from mage_envs.games.webshop.catalogue_maker.draws import Draws
from mage_envs.games.webshop.catalogue_maker.instructions import HELD_OUT, USUAL, instruction
from mage_envs.games.webshop.catalogue_maker.tables import FORMS, product_types, word_lists
from mage_envs.games.webshop.products import UNLIMITED
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
    limited = [goal for goal in goals if goal.price_upper < UNLIMITED]
    assert all(
        goal.text == f"{goal.instruction}, and price lower than {goal.price_upper:.2f} dollars" for goal in limited
    )
    assert all(goal.price_upper % 10 == 0 and 10 <= goal.price_upper <= 990 for goal in limited)


def test_a_third_of_the_goals_has_no_price_limit(goals):
    unlimited = [goal for goal in goals if goal.price_upper == UNLIMITED]
    assert len(unlimited) / len(goals) == pytest.approx(1 / 3, abs=0.02)
    assert all(goal.text == goal.instruction for goal in unlimited)


def test_only_ood_phrase_speaks_otherwise(goals):
    usual, ood_openers = (
        [opener.removesuffix("{n}") for _, opener in word_lists("phrases")[manner]["openers"]]
        for manner in ("usual", "held_out")
    )
    assert (len(usual), len(set(ood_openers))) == (30, len(ood_openers))
    assert len(ood_openers) >= 40
    assert not any(
        ood_opener.startswith(tuple(usual)) or usual_opener.startswith(ood_opener)
        for ood_opener in ood_openers
        for usual_opener in usual
    )
    clean = make(2000, 5, typos=0.0).goals
    for goal in clean:
        openers = ood_openers if goal.split == "ood_phrase" else usual
        assert goal.instruction.startswith(tuple(openers)), goal.instruction
    unusual = (" coming with ", " do not forget: ", " so long as ", " provided ", " whose ")
    assert not any(word in goal.instruction for goal in clean if goal.split != "ood_phrase" for word in unusual)
    assert any(word in goal.instruction for goal in clean if goal.split == "ood_phrase" for word in unusual)


@pytest.mark.parametrize("manner", ["usual", "held_out"])
def test_phrases_fit_the_form_of_a_wording(manner):
    """Absences get no phrase for features, and every form and every option has phrases."""
    lists = word_lists("phrases")[manner]
    assert set(lists["clauses"]) == set(lists["sentences"]) == set(lists["before"]) == set(FORMS)
    assert {axis.name for kind in product_types() for axis in kind.axes} <= set(lists["choices"])
    absences = {
        wording.text
        for kind in product_types()
        for group in kind.groups
        for attribute in group.values
        for wording in attribute.wordings
        if wording.text.startswith(("no ", "nothing ", "none ")) or wording.form == "n"
    }
    instructions = [goal.instruction for goal in catalogue("medium", 1).goals]
    for text in absences:
        assert not any(
            f"{verb} {text}" in goal_text
            for goal_text in instructions
            for verb in ("without", "forget:", "coming with")
        )


def test_clauses_follow_the_noun_that_they_describe():
    """A material comes before the parts of the product, and a purpose after them."""
    kind = next(kind for kind in product_types() if kind.name == "women's ankle boots")
    attribute_by_name = {attribute.name: attribute for group in kind.groups for attribute in group.values}
    attributes = [
        attribute_by_name[name] for name in ("daily wear", "faux fur", "faux leather") if name in attribute_by_name
    ]
    for number in range(50):
        manner = HELD_OUT._replace(sentences=HELD_OUT.clauses)
        text = instruction(Draws(1, number), kind, attributes, (), manner, 0.0)
        places = [max(text.find(wording.text) for wording in attribute.wordings) for attribute in attributes]
        assert ". " in text or places == sorted(places, reverse=True), text


def test_typos_are_a_knob():
    no_typos, few_typos, many_typos = (make(1000, 2, typos=typos).goals for typos in (0.0, 0.04, 1.0))
    assert [goal.attributes for goal in few_typos] == [goal.attributes for goal in many_typos]

    def slips(goals):
        vocabulary = {word for goal in no_typos for word in goal.instruction.split()}
        return share(goals, lambda goal: any(word not in vocabulary for word in goal.instruction.split()))

    assert slips(no_typos) == 0.0
    assert 0.02 < slips(few_typos) < 0.06
    assert slips(many_typos) > 0.85


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
    share_named = share(goals, lambda goal: all(attribute in goal.instruction for attribute in goal.attributes))
    assert 0.3 < share_named < 0.8
    texts = " ".join(goal.instruction for goal in goals)
    assert "pack of 3" in texts
    assert "pack of three" in texts
