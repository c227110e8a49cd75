"""The score of a purchase: every rule and quirk, with totals worked out by hand."""

import pytest

from mage_envs.games.webshop.goals import Goal
from mage_envs.games.webshop.products import normalise
from mage_envs.games.webshop.reward import score
from tests.games.webshop.raw import raw

WORDS = str.split
"""Every word of a title counts as a noun here, so that title scores can be worked out."""


def bought(**fields):
    attributes = fields.pop("attributes", ["rubber sole"])
    entry = raw("B1", "alpha canvas shoe", query="shoes", product_category="A › B › C", small_description=[])
    return normalise(entry | fields, {"attributes": attributes})


def make_goal(**fields):
    goal = Goal(
        id="B1-s0",
        kind="synthetic",
        split="train",
        asin="B1",
        instruction="",
        attributes=("rubber sole",),
        options=("7",),
        price_upper=30.0,
        query="shoes",
        category="c",
        product_category="A › B › C",
        title="alpha canvas shoe",
    )
    return goal._replace(**fields)


def total(product=None, goal=None, price=20.0, options=None):
    return score(product or bought(), goal or make_goal(), price, {"size": "7"} if options is None else options, WORDS)


@pytest.mark.parametrize(("price", "expected"), [(20.0, 1.0), (30.0, 1.0), (30.01, 2 / 3)])
def test_price(price, expected):
    result = total(price=price)
    assert result.total == expected
    assert result.r_price is (price <= 30)


@pytest.mark.parametrize(
    ("product", "attributes", "num_met"),
    [
        (bought(), ("rubber sole",), 1),
        (bought(), ("rubber soles",), 1),
        (bought(), ("sole rubber thick",), 1),
        (bought(), ("leather lining",), 0),
        (bought(attributes=["non slip rubber sole"]), ("rubber sole",), 1),
        (bought(attributes=[]), ("canvas",), 1),
        (bought(attributes=[], full_description="Machine WASH it"), ("wash",), 1),
        (bought(attributes=[], full_description="machine wash"), ("Wash",), 0),
        (bought(attributes=[], small_description=["Non", "Slip"]), ("non slip",), 1),
        (bought(attributes=[], small_description=["non"], full_description="slip"), ("non slip",), 0),
        (bought(), ("rubber sole", "rubber sole"), 2),
    ],
)
def test_attributes(product, attributes, num_met):
    result = total(product, make_goal(attributes=attributes))
    assert result.r_att == num_met / len(attributes)
    assert result.total == (num_met + 1 + 1) / (len(attributes) + 2)


@pytest.mark.parametrize(
    ("options", "option_choice", "matched"),
    [
        (("7",), {}, 0),
        (("7",), {"size": "8"}, 0),
        (("7",), {"size": "7", "color": "red"}, 1),
        (("7",), {"shoe": "7 wide"}, 1),
        # Both sides are reduced to the first colour of a list that they contain.
        (("royal blue",), {"color": "navy blue stripes"}, 1),
        (("red",), {"color": "tired"}, 1),
        (("blue", "light blue"), {"color": "blue"}, 2),
        # Pairs: the axis is compared, too, and a value counts as a colour only if it is the whole value.
        ((("color", "royal blue"),), {"color": "blue"}, 1),
        ((("color", "royal blue"),), {"color": "light blue"}, 1),
        ((("color", "blue"),), {"color": "navy blue"}, 1),
        ((("color", "blue"),), {"color": "red"}, 0),
        ((("size", "7"),), {"x": "size"}, 1),
        (("7",), {"x": "size"}, 0),
        ((("size", "7"),), {"size": "7"}, 1),
        ((("size", "7"),), {"size": "8"}, 0),
        ((("color", "red"), ("size", "7")), {"color": "red"}, 1),
    ],
)
def test_options(options, option_choice, matched):
    result = total(goal=make_goal(options=options), options=option_choice)
    assert result.r_option == matched / len(options)
    assert result.total == (1 + matched + 1) / (len(options) + 2)


def test_without_wanted_options():
    result = total(goal=make_goal(options=()), options={"size": "9"})
    assert (result.total, result.r_option) == (1.0, None)


TEN = " ".join(f"w{number}" for number in range(10))
RELATED, OTHER = {"query": "shoes"}, {"query": "boots", "product_category": "X › Y"}


@pytest.mark.parametrize(
    ("title", "name", "kind", "title_score", "factor"),
    [
        ("alpha canvas shoe", "alpha canvas shoe", OTHER, 1.0, 1.0),
        ("a b", "alpha canvas shoe", RELATED, 0.0, 0.0),  # an equal query does not help
        (f"{TEN} w10", "w0", RELATED, 1 / 11, 0.1),
        (TEN, "w0", RELATED, 0.1, 1.0),
        (TEN, "w0", OTHER, 0.1, 0.5),
        ("a b c d e", "a", OTHER, 0.2, 0.5),
        ("a b c d e", "a b", OTHER, 0.4, 1.0),
        ("a b c d e", "a", RELATED, 0.2, 1.0),
        ("a a a a a", "a", OTHER, 0.2, 0.5),
        ("a", "a a a", OTHER, 1.0, 1.0),
        ("", "a", OTHER, 0.2, 0.5),
        ("", "a", RELATED, 0.2, 1.0),
        ("a b c d e", "a", OTHER | {"product_category": "C › X › A"}, 0.2, 1.0),
        ("a b c d e", "a", OTHER | {"product_category": "A › A › D"}, 0.2, 0.5),
        ("a b c d e", "a", OTHER | {"product_category": " A ›B› Z"}, 0.2, 1.0),
        ("a b c d e", "a", OTHER | {"product_category": "a › b"}, 0.2, 0.5),
    ],
)
def test_the_kind_of_product(title, name, kind, title_score, factor):
    """`title` is the wanted product's, `name` the bought one's."""
    result = total(bought(name=name, **kind), make_goal(title=title))
    assert result.title_score == pytest.approx(title_score)
    assert result.r_type == factor
    assert result.total == factor
    assert result.query_match is (kind["query"] == "shoes")


def test_the_factor_multiplies_the_met_parts():
    result = total(bought(name="a", **OTHER), make_goal(title="a b c d e"), price=99.0)
    assert result.total == 2 / 3 * 0.5


def test_case_of_titles_does_not_matter_to_the_built_in_nouns():
    assert score(bought(name="Canvas Shoe"), make_goal(title="Canvas Shoe"), 1.0, {"size": "7"}).total == 1.0
