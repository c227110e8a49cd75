"""The score of a purchase, as the original computes it, quirks included."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple

from mage_envs.games.webshop.goals import Goal
from mage_envs.games.webshop.products import Product
from mage_envs.games.webshop.search.colours import COLOURS, normalize_colour
from mage_envs.games.webshop.search.fuzzy import matches
from mage_envs.games.webshop.search.nouns import nouns

Tagger = Callable[[str], Collection[str]]
"""The nouns of a title, lower case, repetitions kept."""


class Score(NamedTuple):
    """A purchase's score and its parts."""

    total: float
    """From 0 to 1; 1.0 exactly is success."""
    r_type: float
    r_att: float
    r_option: float | None
    """None where the goal names no option."""
    r_price: bool
    query_match: bool
    category_match: bool
    title_score: float


def score(product: Product, goal: Goal, price: float, options: Mapping[str, str], tagger: Tagger = nouns) -> Score:
    """The score of buying `product` for `price` with the chosen `options` (axis to value)."""
    query_match = product.query == goal.query
    category_match = len(_segments(product.product_category) & _segments(goal.product_category)) >= 2
    title_score = _title_score(product.title, goal.title, tagger)
    r_type = _type_factor(query_match or category_match, title_score)
    met = _attributes_met(product, goal.attributes)
    matched = options_matched(options.values(), goal.options)
    r_price = price <= goal.price_upper
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
    """Share of the wanted title's nouns in the bought one; a repeated noun counts below the line each time."""
    named = _nouns(wanted, tagger)
    return len(set(_nouns(bought, tagger)) & set(named)) / len(named) if named else 0.2


def _type_factor(related: bool, title_score: float) -> float:
    """A title without a shared noun outweighs even an equal query."""
    if title_score == 0.0:
        return 0.0
    if title_score < 0.1:
        return 0.1
    return 1.0 if related or title_score > 0.2 else 0.5


def _attributes_met(product: Product, wanted: Iterable[str]) -> int:
    """Attributes close to a hidden one of the product, or literally in its lower-cased text."""
    texts = cache(partial(lower_texts, product))
    return sum(attribute_met(product, attribute, texts) for attribute in wanted)


def attribute_met(product: Product, wanted: str, texts: Callable[[], Sequence[str]]) -> bool:
    """Whether the product has an attribute; its lower-cased `texts` are read only where no hidden one is close."""
    return any(matches(known, wanted) for known in product.attributes) or any(wanted in text for text in texts())


def lower_texts(product: Product) -> tuple[str, str, str]:
    """The texts of a product in which an attribute may be told."""
    return product.title.lower(), " ".join(product.bullets).lower(), product.description.lower()


def options_matched(chosen: Iterable[str], wanted: Iterable[Any]) -> int:
    """Wanted options close to a chosen value."""
    values = [normalize_colour(value) for value in chosen]
    return sum(any(matches(value, option) for value in values) for option in map(_wanted_text, wanted))


def _wanted_text(option: Any) -> str:
    """What a wanted option is compared as.

    The original hands synthetic goals' (axis, value) pairs to code made for texts: a colour counts as found only when
    it equals the axis or the value, and a pair is compared as Python writes it, so that the axis is part of it.
    """
    if isinstance(option, str):
        return normalize_colour(option)
    return next((colour for colour in COLOURS if colour in option), str(option))
