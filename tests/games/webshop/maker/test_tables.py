"""The word lists: enough of everything, and nothing that the shop's matcher takes for something else."""

from collections import Counter
from itertools import combinations

import pytest

from mage_envs.games.webshop.catalogue_maker.tables import SEPARATOR, headline, product_types, siblings, word_lists
from mage_envs.games.webshop.search.colours import normalize_colour
from mage_envs.games.webshop.search.fuzzy import matches

TYPES = product_types()
KINDS = {kind.name: kind for kind in TYPES}
AXES = {axis.pool: axis for kind in TYPES for axis in kind.axes}


def attributes(kind):
    return [attribute for group in kind.groups for attribute in group.values]


def test_there_are_enough_types_in_each_department():
    counts = Counter(kind.department.name for kind in TYPES)
    assert counts == {"fashion": 35, "beauty": 25, "garden": 25, "grocery": 20, "electronics": 15}
    assert len({kind.name for kind in TYPES}) == len(TYPES) == 120


def test_each_department_holds_out_some_types():
    held_out = Counter(kind.department.name for kind in TYPES if kind.held_out)
    assert len(held_out) == 5
    assert sum(held_out.values()) == 24


def test_types_have_the_shape_that_families_need():
    for kind in TYPES:
        assert 6 <= len(kind.groups) <= 10, kind.name
        assert all(2 <= len(group.values) <= 4 for group in kind.groups), kind.name
        assert sum(len(group.values) > 2 for group in kind.groups) >= 2, kind.name
        assert len(kind.axes) <= 3, kind.name
        assert kind.number in {"one", "plural", "pair", "mass"}, kind.name


def test_attributes_are_pairs_of_words_and_most_have_synonyms():
    known = {attribute.name: attribute for kind in TYPES for attribute in attributes(kind)}
    assert len(known) >= 300
    assert all(len(name.split()) == 2 for name in known)
    assert sum(len(attribute.wordings) > 1 for attribute in known.values()) > 0.95 * len(known)


def test_category_paths_relate_siblings_and_only_them():
    paths = {kind.name: set(kind.path.split(SEPARATOR)) for kind in TYPES}
    branches = {kind.name: tuple(kind.path.split(SEPARATOR)[:2]) for kind in TYPES}
    assert all(4 <= len(kind.path.split(SEPARATOR)) <= 5 for kind in TYPES)
    for one, other in combinations(TYPES, 2):
        shared = len(paths[one.name] & paths[other.name])
        if branches[one.name] == branches[other.name]:
            assert shared >= 2, (one.path, other.path)
        if one.department is not other.department:
            assert shared < 2, (one.path, other.path)


def test_siblings_keep_to_their_side_of_the_held_out_line():
    for kind in TYPES:
        for other in siblings()[kind.name]:
            assert other is not kind
            assert other.held_out == kind.held_out
            assert len(set(kind.groups) & set(other.groups)) >= 3


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_no_attribute_of_a_type_passes_for_another(kind):
    for one, other in combinations(attributes(kind), 2):
        assert not matches(one.name, other.name), (one.name, other.name)
        for first, second in ((one, other), (other, one)):
            assert all(first.name not in wording.text for wording in second.wordings), (first.name, second.name)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_no_other_text_names_an_attribute(kind):
    department = kind.department
    told = " | ".join([kind.name, *department.brands, *department.fillers, *department.benefits, *department.stories])
    assert [attribute.name for attribute in attributes(kind) if attribute.name in told.lower()] == []


@pytest.mark.parametrize("pool", sorted(word_lists("options")))
def test_values_of_different_classes_do_not_match(pool):
    assert pool in AXES, "no type uses it"
    for (one, its), (other, others) in combinations(AXES[pool].values, 2):
        if its != others:
            assert not matches(normalize_colour(one), normalize_colour(other)), (one, other)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_values_of_different_axes_do_not_match(kind):
    for one, other in combinations(kind.axes, 2):
        for value, _ in one.values:
            assert not any(matches(normalize_colour(value), normalize_colour(rival)) for rival, _ in other.values)


def test_colours_are_many_and_some_are_compound():
    values = [value for value, _ in AXES["color"].values]
    assert len(set(values)) == len(values) > 40
    assert sum(" " in value for value in values) > 15


def test_every_pack_can_be_said():
    assert {value for value, _ in AXES["pack"].values} == {"single", *word_lists("phrases")["packs"]}


def test_wordings_follow_plural_nouns():
    hand_wash = next(attribute for attribute in attributes(KINDS["men's chino pants"]) if attribute.name == "hand wash")
    assert (hand_wash.wordings[2].text, hand_wash.wordings[2].plural) == (
        "gets washed by hand",
        "get washed by hand",
    )


def test_headlines():
    assert headline("women's wide leg pants") == "Women's Wide Leg Pants"
    assert headline("hdmi cable for the tv") == "HDMI Cable for the TV"
