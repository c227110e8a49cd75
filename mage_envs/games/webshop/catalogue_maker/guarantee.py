"""Proves every goal of a catalogue when it is made: the target earns exactly 1.0, and a search finds it.

The reward of the target with the wanted options follows from what product and goal say (`is_worth_all`). That the
target can be found depends on the product alone: some query of words that its page shows has it among the results.
Queries of few and rare words come first, and each proves all of its results, so that a search serves five to ten
products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from hashlib import file_digest
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mage_envs.games.webshop.catalogue_maker.ranking import Ranking
from mage_envs.games.webshop.products import MadeGoal, Product
from mage_envs.games.webshop.search.analysis import words
from mage_envs.games.webshop.search.colours import normalize_colour
from mage_envs.games.webshop.search.fuzzy import matches
from mage_envs.games.webshop.search.index import Index
from mage_envs.games.webshop.search.nouns import nouns
from mage_envs.games.webshop.shop import HITS
from mage_envs.games.webshop.store import FORMAT, Catalogue
from mage_envs.progress import Progress

_FIRST, _NEXT = 3, (4, 8, 16)
"""Words in the query of a title's rarest words, and in those of all that is searched of a product."""
_LEAST_TITLE_SCORE = 0.1
"""Below it the reward takes a product for another kind of thing."""


CERTIFIED = frozenset(
    {
        "1.1-6a9ec3d7600dc25b6d546dcf45e92050fc45bcb4a390b17be2a90e1cf140f004",  # xl
        "1.1-0c53b5e5ce586c4d8e0e35096c229561e9235e8a054dbe6b4294bc7dd2d288f4",  # its held-out twin
    }
)
"""What `certificate` says of catalogues in which all products were found, and that take minutes to search. The command
`python -m mage_envs.games.webshop.catalogue_maker --size xl` searches again, and prints it."""


class Unproven(RuntimeError):
    """A goal of a generated catalogue that cannot be reached with full reward."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; mend the word lists or draws that made it.")


class Proven(NamedTuple):
    """That all goals of a catalogue are proven."""

    goals: int
    searches: int
    """In which all products together were found."""
    certificate: str


def proven(catalogue: Catalogue) -> Proven:
    """Proves the goals of a written catalogue again. Raises Unproven."""
    products = (catalogue.product(position) for position in range(len(catalogue)))
    goals = sum(len(product.made) for product in checked(products))
    made = searches(Index.open(catalogue.folder / "index"), catalogue.product)
    return Proven(goals, made, certificate(catalogue.folder))


def certificate(folder: Path) -> str:
    """Tells the products and the index of a catalogue's folder from all others."""
    with (folder / "products.bin").open("rb") as file:
        return f"{FORMAT}-{file_digest(file, 'sha256').hexdigest()}"


def checked(products: Iterable[Product]) -> Iterator[Product]:
    """The products, each of whose goals is worth exactly 1.0. Raises Unproven."""
    for product in products:
        for number, goal in enumerate(product.made):
            if not is_worth_all(product, goal):
                raise Unproven(f"Goal {product.asin}-m{number}: its own product does not earn the full reward")
        yield product


def is_worth_all(product: Product, goal: MadeGoal) -> bool:
    """Whether buying the product with the wanted options earns exactly 1.0, for every draw of its price.

    It asks for more than the reward does: each attribute is one of the product's, and each option a value of an axis of
    its own.
    """
    named = nouns(product.title)
    return (
        all(wanted in product.attributes and matches(wanted, wanted) for wanted in goal.attributes)
        and _offers(product, goal)
        and product.high < goal.price_upper
        and (not named or len(set(named)) / len(named) >= _LEAST_TITLE_SCORE)
    )


def _offers(product: Product, goal: MadeGoal) -> bool:
    axes = [axis for wanted in goal.options for axis, values in product.options.items() if wanted in values]
    plain = map(normalize_colour, goal.options)
    return len(axes) == len(set(axes)) == len(goal.options) and all(matches(wanted, wanted) for wanted in plain)


def searches(index: Index, product: Callable[[int], Product]) -> int:
    """The number of searches that find every document of the index; `product` reads it. Raises Unproven."""
    ranking, asked = Ranking(index), set[str]()
    found = np.zeros(len(index), bool)
    tell = Progress("WebShop proves that searches find its products", len(index), "products")
    for position in range(len(index)):
        tell(position)
        if found[position]:
            continue
        for query in _queries(product(position), ranking):
            if query not in asked:
                asked.add(query)
                found[list(ranking.search_rare(query, HITS))] = True
            if found[position]:
                break
        else:
            raise Unproven(f"Product {product(position).asin}: no search finds it among the first {HITS}")
    return len(asked)


def _queries(product: Product, ranking: Ranking) -> Iterator[str]:
    """From the rarest words of its title to all that is searched of a product."""
    yield " ".join(_rarest(product.title, ranking)[:_FIRST])
    text = product.indexed_text()
    rarest = _rarest(text, ranking)
    for count in _NEXT:
        yield " ".join(rarest[:count])
    yield product.title
    yield text


def _rarest(text: str, ranking: Ranking) -> list[str]:
    spread = {word: ranking.spread(word) for word in words(text)}
    return sorted(filter(spread.__getitem__, spread), key=spread.__getitem__)
