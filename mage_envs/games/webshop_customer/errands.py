"""Errands for a customer: goals of WebShop with wishes that the instruction does not say.

On an errand the customer minds a taste if the errand's product offers values for every character and the instruction
names no value. What a wish means is resolved on the product that is bought.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from mage_envs.games.webshop.goals import Goal
from mage_envs.games.webshop.products import Product
from mage_envs.games.webshop.session import PAGE_SIZE
from mage_envs.games.webshop.shop import Shop
from mage_envs.games.webshop_customer.tastes import KINDS, Resolved

_PRICE = re.compile(r"\$([\d.]+)")


class UnsaidWish(NamedTuple):
    """A taste that counts on an errand."""

    taste: int
    """Place of the taste in its kind."""
    axis: str
    """Option axis of the product."""
    resolved: Resolved
    """Values of the product that please each character."""


class Errand(NamedTuple):
    """A purchase for a customer."""

    goal: Goal
    wishes: tuple[UnsaidWish, ...]
    """Wishes that the instruction does not say, on the product that the errand is about."""


def find_named_value(values: Sequence[str], instruction: str) -> str:
    """Return the longest of an axis's values that the instruction contains as whole words, or an empty string."""
    text = instruction.lower()
    matches = [value for value in values if re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text)]
    return max(matches, key=len, default="")


def wishes_on(options: Mapping[str, Sequence[str]], instruction: str, kind: str) -> Iterator[UnsaidWish]:
    """Yield the wishes that count on a product, at most one for each taste.

    Args:
        options: Values of the product by axis.
        instruction: Instruction of the errand, whose named values leave nothing unsaid.
    """
    for index, taste in enumerate(KINDS[kind]):
        for axis, resolve in taste.rules:
            resolved = resolve(options.get(axis, ()))
            if all(resolved) and not find_named_value(options[axis], instruction):
                yield UnsaidWish(index, axis, resolved)
                break


def affordable(shop: Shop, goal: Goal) -> Product | None:
    """Return the first affordable product on the first page of results for the whole instruction, or None."""
    for position in shop.search(goal.instruction.lower().strip())[:PAGE_SIZE]:
        product = shop.catalogue.product(position)
        price = _PRICE.match(product.price_tag)
        if price is not None and float(price[1]) <= goal.price_upper:
            return product
    return None


@lru_cache(maxsize=1 << 15)
def errand_at(shop: Shop, number: int, kind: str, easy: bool) -> Errand | None:
    """Return the errand of a goal, or None if it has none.

    Args:
        easy: If True, the first affordable result must be right. Otherwise the goal's own product counts.
    """
    goal = shop.goal_at(number)
    product = affordable(shop, goal) if easy else _own_product(shop, goal)
    if product is None:
        return None
    wishes = tuple(wishes_on(product.options, goal.instruction, kind))
    named_options = {
        axis: value for axis, values in product.options.items() if (value := find_named_value(values, goal.instruction))
    }
    # A text that names other values than the goal wants could be read in two ways, so it makes no errand.
    if not wishes or sorted(named_options.values()) != sorted(map(str, goal.options)):
        return None
    score = shop.score(product, goal, named_options)
    # The original's score accepts similar kinds of products, which a person would not buy.
    right = score.total == 1.0 and score.query_match
    # The size of a basket is no size of clothes, although its values are the same.
    apt = all(KINDS[kind][wish.taste].category in ("", product.category) for wish in wishes)
    # A click on a value that two axes have chooses the last of them.
    axis_by_value = {value: axis for axis, values in product.options.items() for value in values}
    plain = all(axis_by_value[value] == wish.axis for wish in wishes for values in wish.resolved for value in values)
    return Errand(goal, wishes) if right and apt and plain else None


def _own_product(shop: Shop, goal: Goal) -> Product | None:
    position = shop.catalogue.find(goal.asin)
    return None if position is None else shop.catalogue.product(position)


def errands(
    shop: Shop, split: str, kind: str, min_wishes: int, easy: bool, rng: np.random.Generator
) -> Iterator[Errand]:
    """Yield errands for different families of products in random order.

    Args:
        min_wishes: Minimum number of wishes.
        easy: If True, only errands for which the first affordable result is right.
    """
    families = set()
    for number in rng.permutation(shop.numbers(split)).tolist():
        errand = errand_at(shop, number, kind, easy)
        if (
            errand is not None
            and len(errand.wishes) >= min_wishes
            and (family := shop.family(errand.goal.id)) not in families
        ):
            families.add(family)
            yield errand
