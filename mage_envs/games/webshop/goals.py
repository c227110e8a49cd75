"""Goals: the requirements behind an instruction, made from products on demand, with stable ids.

Three kinds: `human` (instructions written by people), `synthetic` (one per combination of a product's options) and
`made` (goals of a generated catalogue). The id of a goal is its product's asin, a letter for the kind and a number. The
number is the place among the product's instructions, or the combination of options (the last axis changes fastest).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from math import prod
from typing import Any, NamedTuple

from mage_envs.games.webshop.chance import uniform
from mage_envs.games.webshop.products import UNLIMITED, MadeGoal, Product

_LIMITS = tuple(10.0 * step for step in range(1, 100))
_ID = re.compile(r"(.{1,10})-([hsm])(\d{1,9})")


class Goal(NamedTuple):
    """One purchase to make: the instruction, and the requirements that the reward checks."""

    id: str
    kind: str
    split: str
    asin: str
    instruction: str
    attributes: tuple[str, ...]
    options: tuple[Any, ...]
    """Wanted values. Synthetic goals have (axis, value) pairs, which the reward compares in another way."""
    price_upper: float
    query: str
    category: str
    product_category: str
    title: str


class Kind(NamedTuple):
    """The functions that make the goals of one kind from a product."""

    letter: str
    numbers: Callable[[Product], Sequence[int]]
    """Function that returns the numbers at the end of a product's goal ids, in ascending order."""
    splits: Callable[[Product], Iterable[str]]
    """Function that returns the split of each goal of a product."""
    make: Callable[[Product, int, int], Goal]
    """Function of (product, number, price seed) that returns the goal."""


def price_limit(price: float, chance: float) -> tuple[float, str]:
    """Return the price limit and its clause: the larger of two of the next four multiples of ten above the price.

    `chance` in [0, 1) selects the pair. The goal has no limit if fewer than two multiples below 1,000 remain.
    """
    first_index = bisect_right(_LIMITS, price)
    near = _LIMITS[first_index : first_index + 4]
    # The multiple at index i is the larger one in i pairs, so it appears i times.
    pairs = [larger for position, larger in enumerate(near) for _ in range(position)]
    if not pairs:
        return UNLIMITED, ""
    upper = pairs[int(chance * len(pairs))]
    return upper, f", and price lower than {upper:.2f} dollars"


def choose_split(asin: str) -> str:
    """Return the split of a product's goals: 80% train, 10% val, 10% test, by the asin alone.

    All goals of a product have the same split, so the splits share no product.
    """
    chance = uniform(asin, "split")
    if chance < 0.8:
        return "train"
    return "val" if chance < 0.9 else "test"


def _same(product: Product, numbers: Sequence[int]) -> Iterable[str]:
    return repeat(choose_split(product.asin), len(numbers)) if numbers else ()


def goal_for(product: Product, kind: str, number: int, specification: MadeGoal) -> Goal:
    """Return the goal for a product.

    Args:
        kind: Kind of the goal. Its first letter is part of the id.
        number: Number of the goal among those of the product.
        specification: Instruction, split, attributes, options and price limit.
    """
    return Goal(
        id=f"{product.asin}-{kind[0]}{number}",
        kind=kind,
        asin=product.asin,
        query=product.query,
        category=product.category,
        product_category=product.product_category,
        title=product.title,
        **specification._asdict(),
    )


def _number_human(product: Product) -> list[int]:
    """Return the numbers of the instructions with attributes. The others are not goals, as in the original."""
    return [number for number, annotation in enumerate(product.annotations) if annotation.attributes]


def _build_human(product: Product, number: int, seed: int) -> Goal:
    annotation = product.annotations[number]
    upper, clause = price_limit(product.price(seed), uniform(seed, product.asin, "human", number))
    text = annotation.instruction.strip(".") + clause
    specification = MadeGoal(
        split=choose_split(product.asin),
        instruction=text,
        attributes=annotation.attributes,
        options=annotation.options,
        price_upper=upper,
    )
    return goal_for(product, "human", number, specification)


def _number_synthetic(product: Product) -> range:
    if product.instruction is None or not product.instruction_attributes:
        return range(0)
    return range(prod(len(values) for values in product.options.values()))


def _build_synthetic(product: Product, number: int, seed: int) -> Goal:
    # The number is read as digits of a mixed-radix system: the last axis in sorted order changes fastest.
    choices, remaining = [], number
    for axis in sorted(product.options, reverse=True):
        values = product.options[axis]
        remaining, index = divmod(remaining, len(values))
        choices.append((axis, values[index]))
    choices.reverse()
    upper, clause = price_limit(product.price(seed), uniform(seed, product.asin, "synthetic"))
    option_text = ", and ".join(f"{axis}: {value}" for axis, value in choices)
    text = f"{product.instruction}{' with ' if option_text else ''}{option_text}{clause}"
    specification = MadeGoal(
        split=choose_split(product.asin),
        instruction=text,
        attributes=product.instruction_attributes,
        options=tuple(choices),
        price_upper=upper,
    )
    return goal_for(product, "synthetic", number, specification)


def _number_made(product: Product) -> range:
    return range(len(product.made_goals))


def _build_made(product: Product, number: int, seed: int) -> Goal:
    return goal_for(product, "made", number, product.made_goals[number])


KINDS: Mapping[str, Kind] = {
    "human": Kind("h", _number_human, lambda product: _same(product, _number_human(product)), _build_human),
    "synthetic": Kind(
        "s", _number_synthetic, lambda product: _same(product, _number_synthetic(product)), _build_synthetic
    ),
    "made": Kind("m", _number_made, lambda product: [goal.split for goal in product.made_goals], _build_made),
}


def parse_id(goal_id: str) -> tuple[str, str, int] | None:
    """Return (asin, kind, number), or None if the text is not a goal id."""
    match = _ID.fullmatch(goal_id)
    if match is None:
        return None
    kind = next(name for name, kind in KINDS.items() if kind.letter == match[2])
    return match[1], kind, int(match[3])
