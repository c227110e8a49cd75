"""How far two ways to find the nouns of titles change what purchases earn."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mage_envs.games.webshop.reward import Tagger, score
from mage_envs.games.webshop.search.nouns import nouns
from mage_envs.games.webshop.shop import Shop


class Comparison(NamedTuple):
    """Purchases for which two taggers were asked."""

    purchases: int
    differing: int
    """Purchases whose score differs."""
    highest: float
    """The highest score among those that differ, 0 where none does."""


def compare_taggers(shop: Shop, tagger: Tagger, purchases: int, other: Tagger = nouns) -> Comparison:
    """Scores of goals' purchases by both: one of three is a hit for the instruction, the others any product."""
    rng = np.random.default_rng(0)
    differing, highest = 0, 0.0
    for number in range(purchases):
        goal = shop.goal_at(int(rng.integers(len(shop))))
        hits = shop.search(goal.instruction) if number % 3 == 0 else ()
        position = hits[int(rng.integers(len(hits)))] if hits else int(rng.integers(len(shop.catalogue)))
        product = shop.catalogue.product(position)
        price = product.price(shop.seed)
        found = {score(product, goal, price, {}, one).total for one in (tagger, other)}
        if len(found) > 1:
            differing += 1
            highest = max(highest, *found)
    return Comparison(purchases, differing, highest)
