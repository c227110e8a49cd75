"""The proof that every generated catalogue gets when it is made."""

import re
from itertools import islice

import pytest

from mage_commands import main
from mage_envs.cli import progress
from mage_envs.games.webshop import embedded
from mage_envs.games.webshop.cache import cached
from mage_envs.games.webshop.catalogue_maker import stream
from mage_envs.games.webshop.catalogue_maker.guarantee import (
    CERTIFIED,
    Unproven,
    checked,
    is_worth_all,
    proven,
    searches,
)
from mage_envs.games.webshop.catalogue_maker.prove import best_reward
from mage_envs.games.webshop.catalogue_maker.ranking import Ranking
from mage_envs.games.webshop.products import normalise
from mage_envs.games.webshop.shop import Shop
from mage_envs.games.webshop.sources import shop_for
from mage_envs.games.webshop.store import FORMAT, Catalogue
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
        made = product.made[int(goal.id[-1])]
        assert is_worth_all(product, made)
        assert best_reward(shop, product, goal) == 1.0
        fulfilled += 1
        for one, other in zip(other_goals(made), other_goals(goal)):
            assert not is_worth_all(product, one)
            assert best_reward(shop, product, other) < 1.0
    assert fulfilled > 100


def test_two_values_of_one_axis_cannot_both_be_had(shop):
    product = next(product for product in map(shop.catalogue.product, range(100)) if len(product.options) == 1)
    [values] = product.options.values()
    goal = product.made[0]
    assert is_worth_all(product, goal._replace(options=(values[0],)))
    assert not is_worth_all(product, goal._replace(options=(values[0], values[-1])))


def test_a_price_range_must_be_below_the_limit_as_a_whole(shop):
    product = next(product for product in map(shop.catalogue.product, range(100)) if product.low < product.high)
    assert not is_worth_all(product, product.made[0]._replace(price_upper=product.high))


def test_a_title_that_repeats_one_noun_is_taken_for_something_else(shop):
    product = shop.catalogue.product(0)._replace(title=" ".join(["Shoe"] * 11))
    own = shop.goal_at(0)._replace(title=product.title)
    assert not is_worth_all(product, product.made[0])
    assert best_reward(shop, product, own) < 1.0


def test_a_goal_beyond_its_product_is_an_error(shop):
    product = shop.catalogue.product(3)
    wrong = product._replace(made=(product.made[0], product.made[1]._replace(price_upper=1.0)))
    with pytest.raises(Unproven, match=f"Goal {product.asin}-m1: its own product does not earn the full reward"):
        list(checked([product, wrong]))


def test_a_product_that_no_search_finds_is_an_error():
    products = [normalise({"asin": f"B{number:03}", "name": "Red Shoe", "query": "shoe"}) for number in range(51)]
    index = index_of((product.asin, product.indexed_text()) for product in products)
    assert searches(index_of([("B", "red shoe")]), lambda position: products[position]) == 1
    with pytest.raises(Unproven, match="Product B050: no search finds it among the first 50"):
        searches(index, lambda position: products[position])


def test_a_catalogue_that_takes_long_says_how_far_it_is(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MAGE_ENVS_CACHE", str(tmp_path))
    monkeypatch.setattr(progress, "FIRST_TOLD", 0.0)
    assert main(["webshop", "show", "--size", "tiny"]) == 0
    making, made, proving = capsys.readouterr().err.splitlines()[:3]
    assert re.fullmatch(r"WebShop makes its catalogue 'tiny': \d+ of 100 products, \d+ s left\.", making)
    assert re.fullmatch(r"WebShop makes its catalogue 'tiny': 100 of 100 products, \d+\.\d s\.", made)
    assert re.fullmatch(r"WebShop proves that searches find its products: \d+ of 100 products, \d+ s left\.", proving)
    assert main(["webshop", "show", "--size", "tiny"]) == 0
    assert capsys.readouterr().err == ""  # it is there now


@pytest.mark.parametrize(("size", "seed", "held_out"), [(7, 3, False), (333, 11, True)])
def test_any_size_is_proven_when_it_is_written(tmp_path, size, seed, held_out):
    families = stream(size, seed, held_out=held_out)
    folder = cached("any", lambda draft: embedded.write_proven(draft, families), tmp_path)
    catalogue = Catalogue(folder)
    again = proven(catalogue)
    assert catalogue.about["proven"] == {"goals": again.goals, "certificate": again.certificate}
    assert again.goals == 2 * size
    shop = Shop(catalogue, "made")
    for goal in map(shop.goal_at, range(0, 2 * size, 5)):
        assert best_reward(shop, catalogue.product(catalogue.find(goal.asin)), goal) == 1.0


def test_the_shop_itself_finds_what_is_proven(monkeypatch):
    """The same searches by the engine that agents use."""
    tiny = shop_for("ood_catalogue", "tiny", None, None, 0)
    asked = []

    def search(self, query, k):
        asked.append(query)
        return tiny.search(query)

    monkeypatch.setattr(Ranking, "search_rare", search)
    count = proven(tiny.catalogue).searches
    assert count == len(set(asked)) == len(asked) > 10
    assert {position for query in asked for position in tiny.search(query)} == set(range(100))


def made(folder, size, seed, monkeypatch, certified=()):
    """The positions whose products were searched for when a catalogue was made."""
    searched = []
    monkeypatch.setattr(embedded, "CERTIFIED", frozenset(certified))
    monkeypatch.setattr(embedded, "searches", lambda index, product: searched.extend(range(len(index))))
    about = cached(f"{size}-{seed}", lambda draft: embedded.write_proven(draft, stream(size, seed)), folder)
    return len(searched), Catalogue(about).about["proven"]["certificate"]


def test_what_is_certified_is_not_searched_again(tmp_path, monkeypatch):
    searched, known = made(tmp_path / "first", 50, 1, monkeypatch)
    assert searched == 50
    assert made(tmp_path / "again", 50, 1, monkeypatch, [known]) == (0, known)


def test_a_catalogue_that_is_not_the_certified_one_is_searched(tmp_path, monkeypatch):
    _, known = made(tmp_path / "first", 50, 1, monkeypatch)
    for size, seed in ((50, 2), (51, 1)):
        searched, other = made(tmp_path / "other", size, seed, monkeypatch, [known])
        assert searched == size
        assert other != known


def test_certificates_are_of_this_format():
    assert {name.partition("-")[0] for name in CERTIFIED} == {FORMAT}
    assert len(CERTIFIED) == 2


def test_a_catalogue_that_is_not_the_proven_one_is_not_kept(tmp_path, monkeypatch):
    """A change of the generator that nobody proved."""
    stored = embedded.stored
    monkeypatch.setattr(embedded, "stored", lambda goal: stored(goal)._replace(attributes=("another attribute",)))
    monkeypatch.setenv("MAGE_ENVS_CACHE", str(tmp_path))
    with pytest.raises(Unproven, match=r"Goal B0\w{8}-m0"):
        embedded.embedded("tiny", "train")
    assert [path.suffix for path in (tmp_path / "webshop").iterdir()] == [".lock"]
