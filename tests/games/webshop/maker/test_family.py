"""Families: near duplicates change exactly one thing, and each text names its attribute in its field."""

from collections import Counter

import pytest

from mage_envs.games.webshop.catalogue_maker.family import LARGEST, SMALLEST
from mage_envs.games.webshop.catalogue_maker.make import stream
from mage_envs.games.webshop.catalogue_maker.tables import product_types
from mage_envs.games.webshop.products import UNLIMITED
from tests.games.webshop.maker.catalogues import catalogue

SIZE = 1000


@pytest.fixture(scope="module")
def families():
    return list(stream(SIZE, 3))


@pytest.fixture(scope="module")
def shelf(families):
    return [pair for family in families for pair in zip(family.members, family.listings)]


def list_changes(seed, member):
    """The things in which a member differs from its family's seed."""
    changes = [
        name
        for name, seed_value, member_value in (
            ("brand", seed.brand, member.brand),
            ("price", (seed.low, seed.high, seed.priced), (member.low, member.high, member.priced)),
        )
        if seed_value != member_value
    ]
    if seed.kind is not member.kind:
        return [*changes, "type"]
    changes += ["attribute"] * sum(
        seed_value is not member_value for seed_value, member_value in zip(seed.attributes, member.attributes)
    )
    mine, others = dict(seed.options), dict(member.options)
    assert set(others) <= set(mine)
    changes += ["axis"] * (len(mine) - len(others))
    changes += ["option"] * sum(mine[axis] != others[axis] for axis in others)
    return changes


def test_each_near_duplicate_changes_exactly_one_thing(families):
    kinds = Counter()
    for family in families:
        [seed] = [member for member in family.members if member.change[0] == "seed"]
        assert SMALLEST <= len(family.members) <= LARGEST
        for member in family.members:
            if member is seed:
                continue
            things = list_changes(seed, member)
            if member.change[0] == "option":  # a value may replace others that match it
                assert set(things) == {"option"}, (member.change, things)
            else:
                assert things == [member.change[0]], (member.change, things)
            kinds[member.change[0]] += 1
    assert set(kinds) == {"attribute", "option", "axis", "price", "brand", "type"}
    assert kinds["attribute"] > sum(kinds.values()) / 3


def test_no_two_members_are_the_same(families):
    for family in families:
        changes = [member.change for member in family.members]
        assert len(set(changes)) == len(changes)


def test_a_missing_value_leaves_nothing_that_passes_for_it(families):
    for family in families:
        for member in family.members:
            if member.change[0] == "option":
                assert member.change[1] not in member.offers
                assert all(values for _, values in member.options)


def test_a_price_change_is_above_every_limit_of_the_others(families):
    for family in families:
        limited = [goal for goal in family.goals if goal.price_upper < UNLIMITED]
        for member in family.members:
            if member.change[0] == "price":
                rivals = [
                    listing.raw["asin"]
                    for rival, listing in zip(family.members, family.listings)
                    if rival.change[0] != "price"
                ]
                assert all(member.low > goal.price_upper for goal in limited if goal.asin in rivals)


def test_another_type_keeps_what_both_know(families):
    num_checked = 0
    for family in families:
        [seed] = [member for member in family.members if member.change[0] == "seed"]
        attribute_by_group = dict(zip(seed.kind.groups, seed.attributes))
        for member in family.members:
            if member.change[0] == "type":
                shared = [
                    (group, a) for group, a in zip(member.kind.groups, member.attributes) if group in attribute_by_group
                ]
                assert len(shared) >= 3
                assert all(attribute_by_group[group] is attribute for group, attribute in shared)
                assert member.kind.held_out == seed.kind.held_out
                num_checked += 1
    assert num_checked > 10


def test_every_attribute_is_named_in_its_field(shelf):
    for member, listing in shelf:
        raw = listing.raw
        bullets = raw["small_description"]
        texts = {
            "title": raw["name"],
            "first bullet": bullets[0],
            "later bullet": " / ".join(bullets[1:]),
            "description": raw["full_description"],
        }
        for attribute in member.attributes:
            field = listing.places[attribute.name]
            wordings = [wording.text for wording in attribute.wordings]
            assert any(wording in texts[field].lower() for wording in wordings), (attribute.name, field, raw)


def test_no_text_names_an_attribute_that_the_product_lacks(shelf):
    names_by_kind = {
        kind.name: [attribute.name for group in kind.groups for attribute in group.values] for kind in product_types()
    }
    for member, listing in shelf:
        raw = listing.raw
        text = " / ".join([raw["name"], *raw["small_description"], raw["full_description"]]).lower()
        has = {attribute.name for attribute in member.attributes}
        assert [name for name in names_by_kind[member.kind.name] if name in text and name not in has] == []


def test_places_are_shared_out(shelf):
    places = Counter(field for _, listing in shelf for field in listing.places.values())
    total = sum(places.values())
    assert 0.12 < places["title"] / total < 0.22
    assert 0.06 < places["first bullet"] / total < 0.15
    assert 0.50 < places["later bullet"] / total < 0.72
    assert 0.07 < places["description"] / total < 0.20


def test_texts_have_the_official_shape(shelf):
    empty = 0
    for _, listing in shelf:
        raw = listing.raw
        assert 8 <= len(raw["name"].split()) <= 25, raw["name"]
        assert 2 <= len(raw["small_description"]) <= 6
        assert len(raw["full_description"].split()) <= 120
        assert not raw["full_description"].startswith(" ")
        assert len(raw["asin"]) == 10
        assert raw["asin"].startswith("B0")
        assert raw["images"]
        assert all(text and "{" not in text for text in raw["small_description"])
        empty += not raw["full_description"]
    assert 0.15 < empty / SIZE < 0.25


def test_prices_vary_as_in_a_shop():
    products = catalogue("medium", 1).products
    missing = sum(not raw["pricing"] for raw in products) / len(products)
    ranges = sum(" - " in raw["pricing"] for raw in products) / len(products)
    assert 0.08 < missing < 0.14
    assert 0.23 < ranges < 0.34


def test_the_noise_of_scraped_lists_is_there():
    values = Counter()
    for raw in catalogue("medium", 1).products:
        text = raw["name"] + " ".join(raw["small_description"])
        values["odd letters"] += not text.isascii()
        for choices in raw["customization_options"].values():
            texts = [choice["value"] for choice in choices]
            values["slash"] += any("/" in text for text in texts)
            values["bracket"] += any("[" in text for text in texts)
            values["twice"] += len(set(texts)) < len(texts)
            values["long"] += len(texts) > 30
            values["longest"] = max(values["longest"], len(texts))
    assert values["longest"] <= 64
    for noise in ("odd letters", "slash", "bracket", "twice", "long"):
        assert values[noise] > 20, noise
