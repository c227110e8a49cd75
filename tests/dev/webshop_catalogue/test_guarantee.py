"""The proof of every generated catalogue."""

from itertools import islice

import pytest

from dev.webshop_catalogue.guarantee import build_catalogue, check_goals, is_worth_all, proven, searches
from dev.webshop_catalogue.prove import best_reward
from dev.webshop_catalogue.ranking import Ranking
from mage_envs.games.webshop.catalogue_maker.make import stream
from mage_envs.games.webshop.embedded import Unproven
from mage_envs.games.webshop.products import normalise
from mage_envs.games.webshop.shop import Shop
from mage_envs.games.webshop.sources import shop_for
from tests.games.webshop.search.indexes import index_of


@pytest.fixture(scope="module")
def shop():
    return shop_for("train", "small", None, None, 0)


def other_goals(goal):
    """Goals for the same product that it cannot fulfil."""
    yield goal._replace(attributes=(*goal.attributes, "xyzzy plugh"))
    yield goal._replace(options=(*goal.options, "xyzzy"))
    yield goal._replace(price_upper=3.0)


def test_what_it_calls_worth_all_earns_exactly_one(shop):
    fulfilled = 0
    for goal in islice(shop.goals("train"), 0, None, 6):
        product = shop.catalogue.product(shop.catalogue.find(goal.asin))
        made_goal = product.made_goals[int(goal.id[-1])]
        assert is_worth_all(product, made_goal)
        assert best_reward(shop, product, goal) == 1.0
        fulfilled += 1
        for changed_goal, scored_goal in zip(other_goals(made_goal), other_goals(goal)):
            assert not is_worth_all(product, changed_goal)
            assert best_reward(shop, product, scored_goal) < 1.0
    assert fulfilled > 100


def test_two_values_of_one_axis_cannot_both_be_had(shop):
    product = next(product for product in map(shop.catalogue.product, range(100)) if len(product.options) == 1)
    [values] = product.options.values()
    goal = product.made_goals[0]
    assert is_worth_all(product, goal._replace(options=(values[0],)))
    assert not is_worth_all(product, goal._replace(options=(values[0], values[-1])))


def test_a_price_range_must_be_below_the_limit_as_a_whole(shop):
    product = next(product for product in map(shop.catalogue.product, range(100)) if product.low < product.high)
    assert not is_worth_all(product, product.made_goals[0]._replace(price_upper=product.high))


def test_a_title_that_repeats_one_noun_is_taken_for_something_else(shop):
    product = shop.catalogue.product(0)._replace(title=" ".join(["Shoe"] * 11))
    renamed_goal = shop.goal_at(0)._replace(title=product.title)
    assert not is_worth_all(product, product.made_goals[0])
    assert best_reward(shop, product, renamed_goal) < 1.0


def test_a_goal_beyond_its_product_is_an_error(shop):
    product = shop.catalogue.product(3)
    wrong = product._replace(made_goals=(product.made_goals[0], product.made_goals[1]._replace(price_upper=1.0)))
    with pytest.raises(Unproven, match=f"Goal {product.asin}-m1: its own product does not earn the full reward"):
        list(check_goals([product, wrong]))


def test_a_product_that_no_search_finds_is_an_error():
    products = [normalise({"asin": f"B{number:03}", "name": "Red Shoe", "query": "shoe"}) for number in range(51)]
    index = index_of((product.asin, product.search_text()) for product in products)
    assert searches(index_of([("B", "red shoe")]), lambda position: products[position]) == 1
    with pytest.raises(Unproven, match="Product B050: no search finds it among the first 50"):
        searches(index, lambda position: products[position])


@pytest.mark.parametrize(("size", "seed", "held_out"), [(7, 3, False), (333, 11, True)])
def test_any_size_is_proven(tmp_path, size, seed, held_out):
    families = stream(size, seed, held_out=held_out)
    catalogue = build_catalogue(families, tmp_path)
    assert proven(catalogue).goals == 2 * size
    shop = Shop(catalogue, "made")
    for goal in map(shop.goal_at, range(0, 2 * size, 5)):
        assert best_reward(shop, catalogue.product(catalogue.find(goal.asin)), goal) == 1.0


def test_the_shop_itself_finds_the_proven_products(monkeypatch):
    """The same searches by the engine that agents use."""
    tiny = shop_for("ood_catalogue", "tiny", None, None, 0)
    queries = []

    def search(self, query, k):
        queries.append(query)
        return tiny.search(query)

    monkeypatch.setattr(Ranking, "search", search)
    count = proven(tiny.catalogue).searches
    assert count == len(set(queries)) == len(queries) > 10
    assert {position for query in queries for position in tiny.search(query)} == set(range(100))
