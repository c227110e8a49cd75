"""The score of a purchase, computed as in the original, including its quirks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from mage_envs.games.webshop.goals import Goal
from mage_envs.games.webshop.products import Product
from mage_envs.games.webshop.search.colours import COLOURS, normalize_colour
from mage_envs.games.webshop.search.fuzzy import matches
from mage_envs.games.webshop.search.nouns import nouns

Tagger = Callable[[str], Collection[str]]
"""Function that returns the nouns of a title in lower case, with repetitions."""


class Score(NamedTuple):
    """The score of a purchase and its parts."""

    total: float
    """Score from 0 to 1. Success is exactly 1.0."""
    r_type: float
    r_att: float
    r_option: float | None
    """Share of the wanted options that are chosen, or None if the goal names no option."""
    r_price: bool
    query_match: bool
    category_match: bool
    title_score: float


def score(product: Product, goal: Goal, price: float, options: Mapping[str, str], tagger: Tagger = nouns) -> Score:
    """Return the score of a purchase.

    Args:
        product: The product that is bought.
        goal: The goal of the episode.
        price: Price of the product in dollars.
        options: Chosen options, axis to value.
        tagger: Function that returns the nouns of a title.
    """
    query_match = product.query == goal.query
    category_match = len(_segments(product.product_category) & _segments(goal.product_category)) >= 2
    title_score = _title_score(product.title, goal.title, tagger)
    r_type = _type_factor(query_match or category_match, title_score)
    met = _attributes_met(product, goal.attributes)
    matched = options_matched(options.values(), goal.options)
    r_price = price <= goal.price_upper
    # The price counts as one more requirement, which the 1 in the divisor accounts for.
    total = (met + matched + r_price) / (len(goal.attributes) + len(goal.options) + 1) * r_type
    r_option = matched / len(goal.options) if goal.options else None
    return Score(
        total=total,
        r_type=r_type,
        r_att=met / len(goal.attributes),
        r_option=r_option,
        r_price=r_price,
        query_match=query_match,
        category_match=category_match,
        title_score=title_score,
    )


def _segments(category: str) -> frozenset[str]:
    return frozenset(part.strip() for part in category.split("›"))


@lru_cache(maxsize=4096)
def _nouns(title: str, tagger: Tagger) -> tuple[str, ...]:
    return tuple(tagger(title))


def _title_score(bought: str, wanted: str, tagger: Tagger) -> float:
    """Return the share of the wanted title's nouns that the bought title contains, or 0.2 without nouns."""
    named = _nouns(wanted, tagger)
    # As in the original, the divisor counts a repeated noun each time and the dividend counts it once.
    return len(set(_nouns(bought, tagger)) & set(named)) / len(named) if named else 0.2


def _type_factor(related: bool, title_score: float) -> float:
    """Return the factor for the kind of product. It is 0 if no noun is shared, even if the query is equal."""
    if title_score == 0.0:
        return 0.0
    if title_score < 0.1:
        return 0.1
    return 1.0 if related or title_score > 0.2 else 0.5


def _attributes_met(product: Product, wanted: Iterable[str]) -> int:
    """Return the number of wanted attributes that the product has (see `attribute_met`)."""
    texts = lower_texts(product)
    return sum(attribute_met(product, attribute, texts) for attribute in wanted)


def attribute_met(product: Product, wanted: str, texts: Sequence[str]) -> bool:
    """Return True if a text of the product contains `wanted`, or if a hidden attribute is close to it.

    Args:
        product: The product.
        wanted: The wanted attribute.
        texts: Texts of the product in lower case (`lower_texts`).
    """
    # The texts come first, because fuzzy comparisons take much longer.
    return any(wanted in text for text in texts) or any(matches(known, wanted) for known in product.attributes)


def lower_texts(product: Product) -> tuple[str, str, str]:
    """Return title, bullets and description in lower case, which may mention an attribute."""
    return product.title.lower(), " ".join(product.bullets).lower(), product.description.lower()


def options_matched(chosen: Iterable[str], wanted: Iterable[Any]) -> int:
    """Return the number of wanted options that are close to a chosen value."""
    values = [normalize_colour(value) for value in chosen]
    return sum(any(matches(value, option) for value in values) for option in map(_wanted_text, wanted))


def _wanted_text(option: Any) -> str:
    """Return the text that a wanted option is compared as.

    The original passes the (axis, value) pairs of synthetic goals to code for strings. Therefore a colour is found only
    if it equals the axis or the value. Any other pair is compared in Python's notation, which includes the axis.
    """
    if isinstance(option, str):
        return normalize_colour(option)
    return next((colour for colour in COLOURS if colour in option), str(option))
