"""Goals: texts, price clauses, ids, order and splits."""

from collections import Counter
from itertools import product as combinations

import numpy as np
import pytest

from mage_envs.games.webshop.chance import shuffle_range
from mage_envs.games.webshop.goals import choose_split, price_limit
from mage_envs.games.webshop.products import normalise
from tests.games.webshop.raw import raw


@pytest.mark.parametrize(
    ("price", "limits"),
    [
        (24.5, {40.0: 1, 50.0: 2, 60.0: 3}),
        (30.0, {50.0: 1, 60.0: 2, 70.0: 3}),
        (0.0, {20.0: 1, 30.0: 2, 40.0: 3}),
        (955.0, {970.0: 1, 980.0: 2, 990.0: 3}),
        (960.0, {980.0: 1, 990.0: 2}),
        (975.0, {990.0: 1}),
    ],
)
def test_the_larger_of_two_of_the_next_four_tens(price, limits):
    pairs = sum(limits.values())
    limit_counts = Counter(price_limit(price, (number + 0.5) / pairs)[0] for number in range(pairs))
    assert limit_counts == limits
    upper, clause = price_limit(price, 0.0)
    assert clause == f", and price lower than {upper:.2f} dollars"


@pytest.mark.parametrize("price", [980.0, 989.99, 990.0, 1299.0])
def test_dear_products_have_no_limit(price):
    assert price_limit(price, 0.5) == (1_000_000.0, "")


def test_synthetic_goals_are_all_combinations(shop):
    goals = list(shop.goals_of(shop.catalogue.product(shop.catalogue.find("B000000001"))))
    values = combinations(["royal blue", "red", "black | white"], ["6", "7", "8.5"])
    assert [goal.options for goal in goals] == [(("color", color), ("size", size)) for color, size in values]
    assert [goal.id for goal in goals] == [f"B000000001-s{number}" for number in range(9)]
    assert len({goal.price_upper for goal in goals}) == 1
    upper = goals[0].price_upper
    assert upper in (40.0, 50.0, 60.0)
    clause = f", and price lower than {upper:.2f} dollars"
    assert goals[5].instruction == f"Find me women's flats with color: red, and size: 8.5{clause}"
    assert goals[5].attributes == ("machine wash", "rubber sole")


def test_axes_are_sorted_by_name_and_duplicate_values_stay(shop):
    tea = [goal.options for goal in shop.goals_of(shop.catalogue.product(shop.catalogue.find("B00000000B")))]
    assert tea[0] == (("flavor name", "mint"), ("size", "pack of 2"))
    shoes = [goal.options for goal in shop.goals_of(shop.catalogue.product(shop.catalogue.find("B000000009")))]
    assert shoes == [(("size", ""),), (("size", "6"),), (("size", "6"),)]


def test_products_without_options_or_instruction(shop):
    goals = {
        goal.asin: goal for split in ("train", "val", "test") if split in shop.splits for goal in shop.goals(split)
    }
    assert set(goals) == {f"B00000000{end}" for end in "139BFM"}
    single = normalise(raw("B000000099", "Plain"), {"instruction": "Buy it", "instruction_attributes": ["x"]})
    assert [goal.instruction.split(",")[0] for goal in shop.goals_of(single)] == ["Buy it"]


def test_human_goals(human_shop):
    first_goal, last_goal = human_shop.goals_of(human_shop.catalogue.product(human_shop.catalogue.find("B000000001")))
    assert (first_goal.id, last_goal.id) == ("B000000001-h0", "B000000001-h2")
    assert (
        first_goal.instruction
        == f"i want blue flats I can wash, and price lower than {first_goal.price_upper:.2f} dollars"
    )
    assert last_goal.instruction.startswith("flats with a rubber sole, and price")
    assert (first_goal.options, last_goal.options) == (("royal blue", "7"), (("size", "7"),))
    assert (first_goal.query, first_goal.title) == ("women's shoes", "Alba Canvas Ballet Flats Shoes for Women")
    assert human_shop.goal("B000000007-h0").instruction == "i need heels"
    assert human_shop.goal("B000000007-h0").price_upper == 1_000_000.0
    assert len(human_shop) == 4


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "x",
        "B000000001",
        "B000000001-s9",
        "B000000001-h0",
        "B000000001-m0",
        "B00GONE000-s0",
        "B000000001-s-1",
        "B000000001-s99999999999999999999",
    ],
)
def test_unknown_ids(shop, bad):
    with pytest.raises(ValueError, match=r"There is no synthetic goal .*; use an id such as 'B0.*-s0'"):
        shop.goal(bad)


def test_an_instruction_without_attributes_is_not_a_goal(human_shop):
    with pytest.raises(ValueError, match="no human goal 'B000000001-h1'"):
        human_shop.goal("B000000001-h1")


def test_ids_and_numbers_agree(shop):
    ids = [shop.goal_at(number).id for number in range(len(shop))]
    assert len(set(ids)) == len(shop) == 9 + 1 + 3 + 2 + 2 + 30
    assert [shop.goal(goal_id) for goal_id in ids] == [shop.goal_at(number) for number in range(len(shop))]


def test_splits_are_disjoint_by_product_and_complete(shop):
    by_split = {split: {goal.asin for goal in shop.goals(split)} for split in shop.splits}
    asins = [asin for split in by_split.values() for asin in split]
    assert len(asins) == len(set(asins))
    assert all(choose_split(asin) == split for split, members in by_split.items() for asin in members)
    assert sum(len(shop.numbers(split)) for split in by_split) == len(shop)
    shares = Counter(choose_split(f"B{number:09d}") for number in range(5000))
    assert shares["train"] / 5000 == pytest.approx(0.8, abs=0.03)
    assert shares["val"] / 5000 == pytest.approx(0.1, abs=0.02)


def test_the_originals_order(shop):
    order = [int(number) for number in shop.catalogue.table("goals.synthetic.order")]
    assert order == list(shuffle_range(len(shop)))
    assert np.array_equal(shop.numbers("val", upstream=True), order)
    with pytest.raises(ValueError, match="split='train' has no synthetic goals among the 47"):
        shop.numbers("train", upstream=True)
    with pytest.raises(ValueError, match="split='dev' has no synthetic goals .* choose one of: 'test', 'train'"):
        shop.numbers("dev")


def test_goals_of_a_product_that_has_no_family_are_one(shop):
    for goal in shop.goals("train"):
        assert shop.family(goal.id) == goal.asin
