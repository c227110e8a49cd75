"""The score of a purchase, computed as in the original, including its quirks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from mage_envs.games.webshop.goals import Goal
from mage_envs.games.webshop.products import Product
from mage_envs.games.webshop.search.fuzzy import matches
from mage_envs.games.webshop.search.nouns import nouns

_NAMES = """
alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy camel camo
caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral cranberry cream crystal
dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass gray green grey heather indigo ivory
ivy khaki lavender lemon leopard light lilac lime magenta maroon mauve merlot midnight mint mocha multicolor mushroom
mustard natural navy nude olive orange peach pewter pink plum purple rainbow red rose royal rust sand sapphire
seashell silver skull slate steel stone stonewash sunflower tan taupe teal tiger turquoise violet walnut wheat white
wine yellow
"""

COLOURS = tuple(_NAMES.split())
"""Colours in WebShop's order, which decides: "dark red" becomes "dark", and "charcoal black" becomes "black".

The names and their order are data of princeton-nlp/WebShop (MIT licence), `web_agent_site/engine/normalize.py`.
"""


@lru_cache(maxsize=1 << 16)
def normalize_colour(value: str) -> str:
    """Return the first of `COLOURS` that the value contains ("shared" contains "red"), or the value if none."""
    return next((colour for colour in COLOURS if colour in value), value)


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
        price: Price of the product in dollars.
        options: Chosen options, axis to value.
        tagger: Function that returns the nouns of a title.
    """
    query_match = product.query == goal.query
    category_match = len(_segments(product.product_category) & _segments(goal.product_category)) >= 2
    title_score = _title_score(product.title, goal.title, tagger)
    r_type = _type_factor(query_match or category_match, title_score)
    attribute_count = _count_attributes(product, goal.attributes)
    option_count = count_options(options.values(), goal.options)
    r_price = price <= goal.price_upper
    # The price counts as one more requirement, which the 1 in the divisor accounts for.
    total = (attribute_count + option_count + r_price) / (len(goal.attributes) + len(goal.options) + 1) * r_type
    r_option = option_count / len(goal.options) if goal.options else None
    return Score(
        total=total,
        r_type=r_type,
        r_att=attribute_count / len(goal.attributes),
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


def _title_score(bought_title: str, goal_title: str, tagger: Tagger) -> float:
    """Return the share of the wanted title's nouns that the bought title contains, or 0.2 without nouns."""
    goal_nouns = _nouns(goal_title, tagger)
    # As in the original, the divisor counts a repeated noun each time and the dividend counts it once.
    return len(set(_nouns(bought_title, tagger)) & set(goal_nouns)) / len(goal_nouns) if goal_nouns else 0.2


def _type_factor(related: bool, title_score: float) -> float:
    """Return the factor for the kind of product. It is 0 if no noun is shared, even if the query is equal."""
    if title_score == 0.0:
        return 0.0
    if title_score < 0.1:
        return 0.1
    return 1.0 if related or title_score > 0.2 else 0.5


def _count_attributes(product: Product, attributes: Iterable[str]) -> int:
    """Return the number of wanted attributes that the product has (see `has_attribute`)."""
    texts = lower_texts(product)
    return sum(has_attribute(product, attribute, texts) for attribute in attributes)


def has_attribute(product: Product, attribute: str, texts: Sequence[str]) -> bool:
    """Return True if a text of the product contains `attribute`, or if a hidden attribute is close to it.

    Args:
        texts: Texts of the product in lower case (`lower_texts`).
    """
    # The texts come first, because fuzzy comparisons take much longer.
    return any(attribute in text for text in texts) or any(
        matches(hidden_attribute, attribute) for hidden_attribute in product.attributes
    )


def lower_texts(product: Product) -> tuple[str, str, str]:
    """Return title, bullets and description in lower case, which may mention an attribute."""
    return product.title.lower(), " ".join(product.bullets).lower(), product.description.lower()


def count_options(chosen_values: Iterable[str], goal_options: Iterable[Any]) -> int:
    """Return the number of wanted options that are close to a chosen value."""
    values = [normalize_colour(value) for value in chosen_values]
    return sum(any(matches(value, option) for value in values) for option in map(_option_text, goal_options))


def _option_text(option: Any) -> str:
    """Return the text that a wanted option is compared as.

    The original passes the (axis, value) pairs of synthetic goals to code for strings. Therefore a colour is found only
    if it equals the axis or the value. Any other pair is compared in Python's notation, which includes the axis.
    """
    if isinstance(option, str):
        return normalize_colour(option)
    return next((colour for colour in COLOURS if colour in option), str(option))
