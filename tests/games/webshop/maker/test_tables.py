"""The word lists: enough of everything, and nothing that the shop's matcher takes for something else."""

from collections import Counter
from itertools import combinations

import pytest

from mage_envs.games.webshop.catalogue_maker.tables import SEPARATOR, headline, product_types, siblings, word_lists
from mage_envs.games.webshop.reward import normalize_colour
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
    attribute_by_name = {attribute.name: attribute for kind in TYPES for attribute in attributes(kind)}
    assert len(attribute_by_name) >= 300
    assert all(len(name.split()) == 2 for name in attribute_by_name)
    assert sum(len(attribute.wordings) > 1 for attribute in attribute_by_name.values()) > 0.95 * len(attribute_by_name)


def test_category_paths_relate_siblings_and_only_them():
    paths = {kind.name: set(kind.path.split(SEPARATOR)) for kind in TYPES}
    branches = {kind.name: tuple(kind.path.split(SEPARATOR)[:2]) for kind in TYPES}
    assert all(4 <= len(kind.path.split(SEPARATOR)) <= 5 for kind in TYPES)
    for first_type, second_type in combinations(TYPES, 2):
        shared = len(paths[first_type.name] & paths[second_type.name])
        if branches[first_type.name] == branches[second_type.name]:
            assert shared >= 2, (first_type.path, second_type.path)
        if first_type.department is not second_type.department:
            assert shared < 2, (first_type.path, second_type.path)


def test_siblings_keep_to_their_side_of_the_held_out_line():
    for kind in TYPES:
        for sibling in siblings()[kind.name]:
            assert sibling is not kind
            assert sibling.held_out == kind.held_out
            assert len(set(kind.groups) & set(sibling.groups)) >= 3


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_no_attribute_of_a_type_passes_for_another(kind):
    for first_attribute, second_attribute in combinations(attributes(kind), 2):
        assert not matches(first_attribute.name, second_attribute.name), (first_attribute.name, second_attribute.name)
        for contained, container in ((first_attribute, second_attribute), (second_attribute, first_attribute)):
            assert all(contained.name not in wording.text for wording in container.wordings), (
                contained.name,
                container.name,
            )


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_no_other_text_names_an_attribute(kind):
    department = kind.department
    all_text = " | ".join(
        [kind.name, *department.brands, *department.fillers, *department.benefits, *department.stories]
    )
    assert [attribute.name for attribute in attributes(kind) if attribute.name in all_text.lower()] == []


@pytest.mark.parametrize("pool", sorted(word_lists("options")))
def test_values_of_different_classes_do_not_match(pool):
    assert pool in AXES, "no type uses it"
    for (left_value, its), (right_value, others) in combinations(AXES[pool].values, 2):
        if its != others:
            assert not matches(normalize_colour(left_value), normalize_colour(right_value)), (left_value, right_value)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_values_of_different_axes_do_not_match(kind):
    for left_axis, right_axis in combinations(kind.axes, 2):
        for value, _ in left_axis.values:
            assert not any(matches(normalize_colour(value), normalize_colour(rival)) for rival, _ in right_axis.values)


def test_colours_are_many_and_some_are_compound():
    values = [value for value, _ in AXES["color"].values]
    assert len(set(values)) == len(values) > 40
    assert sum(" " in value for value in values) > 15


def test_every_pack_can_be_said():
    assert {value for value, _ in AXES["pack"].values} == {"single", *word_lists("phrases")["packs"]}


def test_wordings_follow_plural_nouns():
    hand_wash = next(attribute for attribute in attributes(KINDS["men's chino pants"]) if attribute.name == "hand wash")
    assert (hand_wash.wordings[2].text, hand_wash.wordings[2].plural) == ("gets washed by hand", "get washed by hand")


def test_headlines():
    assert headline("women's wide leg pants") == "Women's Wide Leg Pants"
    assert headline("hdmi cable for the tv") == "HDMI Cable for the TV"
