"""Proof of every goal of a generated catalogue: the target earns exactly 1.0, and a search finds it.

The reward of the target with the wanted options follows from product and goal alone (`is_worth_all`). A search finds
the target if some query of words from its page has it among the results, which depends on the product alone. Queries
of few and rare words come first. Each query proves all of its results, so one search covers five to ten products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dev.webshop_catalogue.ranking import Ranking
from mage_envs.games.webshop.cache import build_cached_folder
from mage_envs.games.webshop.catalogue_maker.make import FamilyRecord
from mage_envs.games.webshop.embedded import Unproven, certificate, products_of
from mage_envs.games.webshop.products import MadeGoal, Product
from mage_envs.games.webshop.reward import normalize_colour
from mage_envs.games.webshop.search.analysis import words
from mage_envs.games.webshop.search.fuzzy import matches
from mage_envs.games.webshop.search.index import Index
from mage_envs.games.webshop.search.nouns import nouns
from mage_envs.games.webshop.shop import HITS
from mage_envs.games.webshop.store import Catalogue, write_catalogue
from mage_envs.progress import Progress

_REMEDY = "fix the word lists or draws that made it."
_FIRST, _NEXT = 3, (4, 8, 16)
"""Number of words in the query of a title's rarest words, and in the queries of the product's rarest words."""
_LEAST_TITLE_SCORE = 0.1
"""Minimum share of distinct nouns in a title. Below it the reward treats the product as another kind."""


class Proven(NamedTuple):
    """Result of a successful proof of a catalogue."""

    goals: int
    searches: int
    """Number of searches that found all products."""
    certificate: str


def build_catalogue(families: Iterable[FamilyRecord], folder: Path) -> Catalogue:
    """Write a catalogue below a folder without comparing its certificate."""
    return Catalogue(build_cached_folder("built", lambda draft: write_catalogue(draft, products_of(families)), folder))


def proven(catalogue: Catalogue) -> Proven:
    """Prove the goals of a stored catalogue. Raises Unproven if a goal cannot be reached with full reward."""
    products = (catalogue.product(position) for position in range(len(catalogue)))
    goals = sum(len(product.made_goals) for product in check_goals(products))
    search_count = searches(Index.open(catalogue.folder / "index"), catalogue.product)
    return Proven(goals, search_count, certificate(catalogue.folder))


def check_goals(products: Iterable[Product]) -> Iterator[Product]:
    """Yield the products. Raises Unproven if a goal of a product is not worth exactly 1.0."""
    for product in products:
        for number, goal in enumerate(product.made_goals):
            if not is_worth_all(product, goal):
                goal_id = f"{product.asin}-m{number}"
                raise Unproven(f"Goal {goal_id}: its own product does not earn the full reward; {_REMEDY}")
        yield product


def is_worth_all(product: Product, goal: MadeGoal) -> bool:
    """Return True if buying the product with the wanted options earns exactly 1.0, for every draw of its price.

    The check is stricter than the reward: each attribute must be one of the product's, and each option must be a value
    of a separate axis.
    """
    title_nouns = nouns(product.title)
    return (
        all(requirement in product.attributes and matches(requirement, requirement) for requirement in goal.attributes)
        and _offers(product, goal)
        and product.high < goal.price_upper
        and (not title_nouns or len(set(title_nouns)) / len(title_nouns) >= _LEAST_TITLE_SCORE)
    )


def _offers(product: Product, goal: MadeGoal) -> bool:
    axes = [axis for option in goal.options for axis, values in product.options.items() if option in values]
    plain = map(normalize_colour, goal.options)
    return len(axes) == len(set(axes)) == len(goal.options) and all(matches(option, option) for option in plain)


def searches(index: Index, product: Callable[[int], Product]) -> int:
    """Return the number of searches that find every document of the index.

    `product` returns the product at a position. Raises Unproven if no search finds a product.
    """
    ranking, queries = Ranking(index), set[str]()
    is_found = np.zeros(len(index), bool)
    tell = Progress("WebShop proves that searches find its products", len(index), "products")
    for position in range(len(index)):
        tell(position)
        # An earlier search has already found most products.
        if is_found[position]:
            continue
        for query in _queries(product(position), ranking):
            if query not in queries:
                queries.add(query)
                is_found[list(ranking.search(query, HITS))] = True
            if is_found[position]:
                break
        else:
            raise Unproven(f"Product {product(position).asin}: no search finds it among the first {HITS}; {_REMEDY}")
    return len(queries)


def _queries(product: Product, ranking: Ranking) -> Iterator[str]:
    """Yield queries, from the rarest words of the title to the whole indexed text."""
    yield " ".join(_rarest(product.title, ranking)[:_FIRST])
    text = product.search_text()
    rarest = _rarest(text, ranking)
    for count in _NEXT:
        yield " ".join(rarest[:count])
    yield product.title
    yield text


def _rarest(text: str, ranking: Ranking) -> list[str]:
    spread = {word: ranking.spread(word) for word in words(text)}
    return sorted(filter(spread.__getitem__, spread), key=spread.__getitem__)
