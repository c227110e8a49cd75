"""Goals: what an instruction asks for, made from the products when needed, with ids that never move.

Three kinds: `human` (people's instructions), `synthetic` (one per combination of a product's options) and `made`
(those of a generated catalogue). The id of a goal is its product's asin, a letter for the kind and a number: the place
among the product's instructions, or the combination of options with the last axis turning fastest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from math import prod
from typing import Any, NamedTuple

from mage_envs.games.webshop.chance import uniform
from mage_envs.games.webshop.products import MadeGoal, Product, ProductStanding

UNLIMITED = 1_000_000.0
"""The price limit of a goal that names none."""
_LIMITS = tuple(10.0 * step for step in range(1, 100))
_ID = re.compile(r"(.{1,10})-([hsm])(\d{1,9})")


class Goal(NamedTuple):
    """What is to be bought."""

    id: str
    kind: str
    split: str
    asin: str
    instruction: str
    attributes: tuple[str, ...]
    options: tuple[Any, ...]
    """Wanted values; (axis, value) pairs in synthetic goals, which the reward treats otherwise."""
    price_upper: float
    query: str
    category: str
    product_category: str
    title: str
    standing: ProductStanding | None = None
    """Known for the goals of generated catalogues of shipped sizes."""


class Kind(NamedTuple):
    """How the goals of one kind come from a product."""

    letter: str
    numbers: Callable[[Product], Sequence[int]]
    """The numbers, in rising order, that the ids of a product's goals end in."""
    splits: Callable[[Product], Iterable[str]]
    """The split of each."""
    make: Callable[[Product, int, int], Goal]
    """(product, number, price seed) -> goal."""


def price_limit(price: float, chance: float) -> tuple[float, str]:
    """The limit and its clause: the larger of two of the next four multiples of ten above the price.

    `chance` in [0, 1) chooses the pair. There is no limit when fewer than two multiples below 1,000 are left.
    """
    near = [limit for limit in _LIMITS if limit > price][:4]
    pairs = [larger for position, larger in enumerate(near) for _ in range(position)]
    if not pairs:
        return UNLIMITED, ""
    upper = pairs[int(chance * len(pairs))]
    return upper, f", and price lower than {upper:.2f} dollars"


def split_of(asin: str) -> str:
    """The product-disjoint split of a product's goals: 80% train, 10% val, 10% test, by the asin alone."""
    chance = uniform(asin, "split")
    return "train" if chance < 0.8 else "val" if chance < 0.9 else "test"


def _same(product: Product, numbers: Sequence[int]) -> Iterable[str]:
    return repeat(split_of(product.asin), len(numbers)) if numbers else ()


def goal_for(product: Product, kind: str, number: int, wanted: MadeGoal) -> Goal:
    """The goal that asks for the product as `wanted` says."""
    return Goal(
        id=f"{product.asin}-{kind[0]}{number}",
        kind=kind,
        asin=product.asin,
        query=product.query,
        category=product.category,
        product_category=product.product_category,
        title=product.title,
        **wanted._asdict(),
    )


def _human_numbers(product: Product) -> list[int]:
    """Instructions that ask for no attribute are no goals."""
    return [number for number, annotation in enumerate(product.annotations) if annotation.attributes]


def _human(product: Product, number: int, seed: int) -> Goal:
    annotation = product.annotations[number]
    upper, clause = price_limit(product.price(seed), uniform(seed, product.asin, "human", number))
    text = annotation.instruction.strip(".") + clause
    wanted = MadeGoal(
        split=split_of(product.asin),
        instruction=text,
        attributes=annotation.attributes,
        options=annotation.options,
        price_upper=upper,
    )
    return goal_for(product, "human", number, wanted)


def _synthetic_numbers(product: Product) -> range:
    if product.instruction is None or not product.instruction_attributes:
        return range(0)
    return range(prod(len(values) for values in product.options.values()))


def _synthetic(product: Product, number: int, seed: int) -> Goal:
    chosen, left = [], number
    for axis in sorted(product.options, reverse=True):
        values = product.options[axis]
        left, place = divmod(left, len(values))
        chosen.append((axis, values[place]))
    chosen.reverse()
    upper, clause = price_limit(product.price(seed), uniform(seed, product.asin, "synthetic"))
    told = ", and ".join(f"{axis}: {value}" for axis, value in chosen)
    text = f"{product.instruction}{' with ' if told else ''}{told}{clause}"
    wanted = MadeGoal(
        split=split_of(product.asin),
        instruction=text,
        attributes=product.instruction_attributes,
        options=tuple(chosen),
        price_upper=upper,
    )
    return goal_for(product, "synthetic", number, wanted)


def _made_numbers(product: Product) -> range:
    return range(len(product.made))


def _made(product: Product, number: int, seed: int) -> Goal:
    return goal_for(product, "made", number, product.made[number])


KINDS: Mapping[str, Kind] = {
    "human": Kind("h", _human_numbers, lambda product: _same(product, _human_numbers(product)), _human),
    "synthetic": Kind("s", _synthetic_numbers, lambda product: _same(product, _synthetic_numbers(product)), _synthetic),
    "made": Kind("m", _made_numbers, lambda product: [made.split for made in product.made], _made),
}


def parse_id(goal_id: str) -> tuple[str, str, int] | None:
    """(asin, kind, number), None for a text that is no goal id."""
    match = _ID.fullmatch(goal_id)
    if match is None:
        return None
    kind = next(name for name, kind in KINDS.items() if kind.letter == match[2])
    return match[1], kind, int(match[3])
