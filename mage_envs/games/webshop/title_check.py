"""Comparison of two taggers of titles by the scores of purchases."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mage_envs.games.webshop.reward import Tagger, score
from mage_envs.games.webshop.search.nouns import nouns
from mage_envs.games.webshop.shop import Shop


class Comparison(NamedTuple):
    """Result of a comparison of two taggers."""

    purchases: int
    differing: int
    """Number of purchases with different scores."""
    highest: float
    """Highest score among the purchases that differ, or 0 if none differs."""


def compare_taggers(shop: Shop, tagger: Tagger, purchases: int, other_tagger: Tagger = nouns) -> Comparison:
    """Return the comparison of two taggers on random purchases.

    Every third purchase is a result of a search with the instruction. The others are random products.

    Args:
        shop: The shop.
        tagger: The tagger to compare.
        purchases: Number of purchases.
        other_tagger: The second tagger (default: the built-in one).
    """
    rng = np.random.default_rng(0)
    differing, highest = 0, 0.0
    for number in range(purchases):
        goal = shop.goal_at(int(rng.integers(len(shop))))
        hits = shop.search(goal.instruction) if number % 3 == 0 else ()
        position = hits[int(rng.integers(len(hits)))] if hits else int(rng.integers(len(shop.catalogue)))
        product = shop.catalogue.product(position)
        price = product.price(shop.seed)
        totals = {score(product, goal, price, {}, compared_tagger).total for compared_tagger in (tagger, other_tagger)}
        if len(totals) > 1:
            differing += 1
            highest = max(highest, *totals)
    return Comparison(purchases, differing, highest)
