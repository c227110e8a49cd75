"""What a customer of WebShop likes but does not say: tastes, and their meaning on a product.

A customer has one of several characters in each taste. What a taste means is resolved on a product: which of its values
are blue or green, and which of its packs is the largest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

Resolved = tuple[tuple[str, ...], ...]
"""Option values that please each character of a taste, in the order of the characters."""
Resolve = Callable[[Sequence[str]], Resolved]
"""Function from the values of a product's option axis to those that please each character."""


def one_of(*groups: Sequence[str]) -> Resolve:
    """Return the rule of characters that want one of these values."""
    return lambda values: tuple(tuple(value for value in values if value in group) for group in groups)


def shades_of(*groups: Sequence[str]) -> Resolve:
    """Return the rule of characters that want a shade of these colours. A value of two groups pleases none of them."""

    def resolve(values: Sequence[str]) -> Resolved:
        groups_by_value = {value: {group for group in groups if set(group) & set(value.split())} for value in values}
        return tuple(tuple(value for value in values if groups_by_value[value] == {group}) for group in groups)

    return resolve


def ends_of(ladder: Sequence[str]) -> Resolve:
    """Return the rule of two characters that want the first and the last value on offer, in the order of a ladder."""

    def resolve(values: Sequence[str]) -> Resolved:
        offered = [value for value in ladder if value in values]
        return (tuple(offered[:1]), tuple(offered[-1:])) if len(offered) > 1 else ((), ())

    return resolve


class Taste(NamedTuple):
    """One respect in which customers differ."""

    verb: str
    characters: Mapping[str, str]
    """Name of each character in a fact, and its words after the verb."""
    rules: Sequence[tuple[str, Resolve]]
    """Option axes of the shop that the taste concerns, with their rules. The first one that fits a product counts."""
    category: str = ""
    """Category of the products that the taste is about, or empty for all."""
    ladder: Sequence[str] = ()
    """Values in ascending order if a purchase shows that a value is too small or too large."""


SIZES = ("x-small", "small", "medium", "large", "x-large", "xx-large", "3x-large")
PACKS = ("single", "twin pack", "three pack", "four pack", "six pack", "eight pack", "ten pack", "dozen")
TASTES = (
    Taste(
        "wears",
        {"medium": "size medium (8 in shoes)", "large": "size large (10 in shoes)"},
        [("size", one_of(["medium"], ["large"])), ("size", one_of(["8"], ["10"]))],
        category="fashion",
    ),
    Taste(
        "likes",
        {
            "plain": "black, white and grey (as scents white tea and vanilla bean)",
            "cool": "blue and green (as scents ocean breeze and eucalyptus)",
            "warm": "red, pink and orange (as scents rose petal and cherry blossom)",
        },
        [
            ("color", shades_of(("black", "white", "grey"), ("blue", "green"), ("red", "pink", "orange"))),
            (
                "scent",
                one_of(["white tea", "vanilla bean"], ["ocean breeze", "eucalyptus"], ["rose petal", "cherry blossom"]),
            ),
        ],
    ),
    Taste(
        "buys",
        {"fewest": "the smallest pack on offer", "most": "the largest pack on offer"},
        [("item package quantity", ends_of(PACKS))],
    ),
)
"""Tastes of the first kind of customers: size, colour and pack."""
FIT = (
    Taste(
        "wears",
        {size: f"size {size}" for size in SIZES[1:6]},
        [("size", one_of(*([size] for size in SIZES[1:6])))],
        category="fashion",
        ladder=SIZES,
    ),
)
"""The taste of the second kind of customers: a size of clothes, which is found by "too small" and "too large"."""
KINDS: Mapping[str, Sequence[Taste]] = {"taste": TASTES, "fit": FIT}


def customers(kind: str) -> dict[str, tuple[int, ...]]:
    """Return the customers of a kind by name, as the index of their character in each taste: `large-cool-most`."""
    tastes = KINDS[kind]
    return {
        "-".join(list(taste.characters)[index] for taste, index in zip(tastes, characters, strict=True)): characters
        for characters in product(*(range(len(taste.characters)) for taste in tastes))
    }
