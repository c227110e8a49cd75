"""The fast search of the catalogue maker against the search engine itself."""

from itertools import islice

import pytest

from dev.webshop_catalogue.ranking import Ranking
from mage_envs.games.webshop.search.index import Index
from mage_envs.games.webshop.sources import shop_for
from tests.games.webshop.search.indexes import index_of


@pytest.fixture(scope="module")
def shop():
    return shop_for("train", "small", None, None, 0)


@pytest.fixture(scope="module")
def index(shop):
    return Index.open(shop.catalogue.folder / "index")


@pytest.fixture(scope="module")
def queries(shop):
    """Return instructions, whole texts, titles, single words, repeated words, and words that no product has."""
    products = [shop.catalogue.product(position) for position in range(0, 1000, 40)]
    texts = [goal.instruction for goal in islice(shop.goals("train"), 0, None, 10)]
    for product in products:
        words = product.title.lower().split()
        texts += [product.search_text(), product.title, words[0], f"{words[0]} {words[0]} {words[-1]}"]
    return [*texts, "size color pack", "xyzzy", "the of and", "", "red xyzzy", f"{texts[0]} " * 900]


@pytest.mark.parametrize("k", [1, 10, 50, 2000])
def test_it_finds_what_the_engine_finds(index, queries, k):
    ranks = Ranking(index)
    for query in queries:
        expected = index.search(query, k)
        assert ranks.search(query, k) == expected, query[:80]


def test_equal_documents_are_ranked_by_id():
    texts = ("red red shoe lace", "red shoe", "red shoe")
    index = index_of([(f"{number * 37 % 100:03}", texts[number % 3]) for number in range(100)])
    ranks = Ranking(index)
    for query in ("red", "shoe red", "lace", "lace shoe red"):
        assert ranks.search(query, 50) == index.search(query, 50)


def test_the_spread_of_a_word(index):
    ranks = Ranking(index)
    assert ranks.spread("red") == len(index.search("red", 1000)) > 10
    assert ranks.spread("xyzzy") == ranks.spread("the") == 0
