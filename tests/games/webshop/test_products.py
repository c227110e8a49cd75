"""The original's normalisation of raw products."""

import json

import pytest

from mage_envs.games.webshop.products import Annotation, MadeGoal, MalformedProduct, from_record, is_kept, normalise
from tests.games.webshop.raw import PRODUCTS, raw


def product(**fields):
    return normalise(raw("B000000009", "Some Shoe", **fields))


@pytest.mark.parametrize(
    ("pricing", "low", "high", "tag"),
    [
        (None, 100.0, 100.0, "$100.0"),
        ("", 100.0, 100.0, "$100.0"),
        ("$24.50", 24.5, 24.5, "$24.5"),
        ("$1,299.00", 1299.0, 1299.0, "$1299.0"),
        ("$8.99 - $12.5", 8.99, 12.5, "$8.99 to $12.5"),
        ("$9 $10 $11", 9.0, 10.0, "$9.0 to $10.0"),
        ("US$4.25", 4.25, 4.25, "$4.25"),
        ("5.00 $7", 7.0, 7.0, "$7.0"),
        ("$30 - $10", 30.0, 10.0, "$30.0 to $10.0"),
    ],
)
def test_prices(pricing, low, high, tag):
    priced = product(pricing=pricing)
    assert (priced.low, priced.high, priced.price_tag) == (low, high, tag)


def test_a_range_is_drawn_once_per_product_and_seed():
    priced = product(pricing="$10 - $30")
    prices = {seed: priced.price(seed) for seed in range(200)}
    assert prices == {seed: priced.price(seed) for seed in range(200)}
    assert 10 <= min(prices.values()) < 12
    assert 28 < max(prices.values()) < 30
    assert product(pricing="$24.50").price(3) == 24.5


def test_options():
    with_options = product(options={"Size": [" XL ", "7/8"], "nothing": None, "EMPTY": [], "size": ["s"]})
    assert with_options.options == {"size": ("s",), "empty": ()}
    assert product(options={"Color": ["A/B / C", "a | b"]}).options == {"color": ("a | b  |  c", "a | b")}
    assert product(customization_options="").options == product(customization_options=None).options == {}


def test_images_belong_to_values_and_the_later_axis_wins():
    axes = {
        "color": [{"value": "Red", "image": "1"}, {"value": "x", "image": "2"}],
        "style": [{"value": "X", "image": "3"}],
    }
    assert product(customization_options=axes).option_images == {"red": "1", "x": "3"}


def test_texts():
    with_texts = normalise(raw("B000000009", "Some Shoe", query="  Women's SHOES ", small_description="One"), {})
    assert (with_texts.query, with_texts.bullets, with_texts.attributes) == ("women's shoes", ("One",), ("DUMMY_ATTR",))
    assert normalise(raw("B1", "x", full_description=None, small_description=None)).bullets == ()
    assert normalise(raw("B1", "x"), {"attributes": []}).attributes == ()


def test_only_the_first_bullet_is_searched():
    with_bullets = product(
        full_description="D", small_description=["First", "Second"], options={"A": ["x", "Y"], "B": ["z"]}
    )
    assert with_bullets.search_text() == "some shoe d first a: x, y, and b: z"


def test_which_entries_are_loaded():
    assert [entry["asin"] for entry in PRODUCTS if not is_kept(entry)] == ["nan", "B0000000LONG"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"pricing": "cheap"}, r"B000000009: 'pricing' must be as in '\$24.50'"),
        ({"pricing": "$1.2.3"}, "'pricing'"),
        ({"name": 3}, "B000000009: 'name' must be a string, got 3"),
        ({"small_description": [3]}, "must be a list of strings"),
        ({"customization_options": [1]}, "must be an object"),
        ({"customization_options": {"a": 1}}, "must be a list"),
        ({"customization_options": {"a": [{"v": 1}]}}, "an option of 'a' must have a 'value'"),
    ],
)
def test_malformed_products_are_named(fields, message):
    with pytest.raises(MalformedProduct, match=message):
        normalise(raw("B000000009", "Some Shoe") | fields)


def test_an_entry_without_asin():
    with pytest.raises(MalformedProduct, match="the 'asin' of a product"):
        is_kept({"name": "x"})


def test_records_hold_everything():
    people = [{"instruction": "x", "instruction_attributes": ["a"], "instruction_options": {"size": "7"}}]
    made_goals = [
        MadeGoal(split="val", instruction="buy", attributes=("a",), options=("7", ("size", "7")), price_upper=20.0)
    ]
    stored = normalise(raw("B1", "é \ud83d", options={"Size": ["7"]}), {"instruction": "y"}, people, made_goals)
    assert stored.annotations == (Annotation("x", ("a",), (("size", "7"),)),)
    assert from_record(stored.to_record()) == stored
    assert json.loads(stored.to_record().decode("utf-8", "surrogatepass"))[0] == "B1"
