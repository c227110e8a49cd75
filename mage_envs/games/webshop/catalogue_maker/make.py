"""Generator of a catalogue: a stream of families. Each family is a function of (seed, its number) alone."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cache, lru_cache, partial
from importlib.resources import files
from typing import NamedTuple

from mage_envs.games.webshop.catalogue_maker.draws import Draws
from mage_envs.games.webshop.catalogue_maker.family import LARGEST, SMALLEST, Member, family
from mage_envs.games.webshop.catalogue_maker.goals import PER_PRODUCT, CatalogueGoal, goals
from mage_envs.games.webshop.catalogue_maker.listing import Listing, listing
from mage_envs.games.webshop.catalogue_maker.tables import Type, product_types, siblings

VERSION = 4
"""Version of the generator. Every change of a word list or a draw must increase it, because it changes the result.
`dev/webshop_catalogue` describes the next steps."""
SIZES = {"tiny": 100, "small": 1_000, "medium": 10_000, "large": 100_000, "xl": 1_000_000}
SPLITS = ("train", "val", "test", "ood_type", "ood_phrase", "ood_catalogue")
TYPOS = 0.04
_ROLES = ("train",) * 6 + ("val", "test", "ood_phrase", "ood_type")
_SHELF = 3
"""Number of consecutive families that share two types, so that a small shop has similar products of other families."""
_FAMILIES, _ORDER, _GOALS = 1, 2, 3
_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ASINS = 36**8
_LENGTH = 10
"""Number of characters of a product's id."""
_STRIDE = 1_822_837_805_971
"""Multiplier of a product's number. It is coprime to `_ASINS`, so that different products have different ids."""
_APART = 977_231_469_403
"""Distance between the ids of two consecutive catalogues."""


class FamilyRecord(NamedTuple):
    """A family: products of the same split with their texts and goals."""

    number: int
    split: str
    members: list[Member]
    listings: list[Listing]
    goals: list[CatalogueGoal]


def stream(
    size: str | int = "small",
    seed: int = 0,
    *,
    held_out: bool = False,
    typos: float = TYPOS,
) -> Iterator[FamilyRecord]:
    """Yield the families of a catalogue one at a time, so that any size fits in memory.

    Args:
        size: Name of a size, or a number of products.
        held_out: If True, the held-out catalogue.
        typos: Probability of a typing error in an instruction.
    """
    for number, count, draws in _families(size, seed, held_out):
        role, kind, sibling = _role(seed, held_out, number)
        members = family(draws, kind, sibling, count)
        listings = [
            listing(draws, member, _asin(seed, held_out, number, index)) for index, member in enumerate(members)
        ]
        split = "ood_catalogue" if held_out else role
        deal = partial(_goal_draws, seed, held_out, number)
        family_goals = goals(deal, number, split, members, listings, typos)
        yield FamilyRecord(number=number, split=split, members=members, listings=listings, goals=family_goals)


def goal_ids(split: str, count: int | None = None, *, size: str | int = "small", seed: int = 0) -> tuple[str, ...]:
    """Return the ids of a split's goals without generating the catalogue.

    Args:
        count: Number of ids, at even steps (default: all).
        size: Name of a size, or a number of products.

    Raises:
        ValueError: If the split has fewer goals.
    """
    held_out = split == SPLITS[-1]
    goal_keys = [
        (number, member_index, order)
        for number, members, _ in _families(size, seed, held_out)
        if held_out or _choose_split(seed, number) == split
        for member_index in range(members)
        for order in range(PER_PRODUCT)
    ]
    if not goal_keys or (count is not None and not 0 < count <= len(goal_keys)):
        raise ValueError(
            f"split={split!r} of size {size!r} has {len(goal_keys)} goals, expected {count or 'at least 1'}."
        )
    if count is not None:
        goal_keys = [goal_keys[step * len(goal_keys) // count] for step in range(count)]
    return tuple(f"{_asin(seed, held_out, number, member_index)}-m{order}" for number, member_index, order in goal_keys)


def _families(size: str | int, seed: int, held_out: bool) -> Iterator[tuple[int, int, Draws]]:
    """Yield (number, number of members, draws) of each family."""
    remaining, number = _count(size), 0
    while remaining:
        draws = Draws(seed, _FAMILIES, held_out, number)
        count = _choose_count(draws.between(SMALLEST, LARGEST), remaining)
        yield number, count, draws
        remaining -= count
        number += 1


@cache
def certificates(size: str, held_out: bool) -> tuple[str, ...]:
    """Return the certificates of a size's proven catalogues, which have the seeds 0, 1, 2 and so on."""
    table = tomllib.loads(files(__package__).joinpath("certificates.toml").read_text("utf-8"))
    return tuple(table[size]["held_out" if held_out else "main"])


def _goal_draws(seed: int, held_out: bool, family: int, goal: int) -> Draws:
    """Return the draws of one goal of a family.

    Args:
        held_out: True for the held-out catalogue.
        goal: Number of the goal in the family.
    """
    return Draws(seed, _GOALS, held_out, family, goal)


def _count(size: str | int) -> int:
    if isinstance(size, str) and size not in SIZES:
        raise ValueError(f"Unknown catalogue size {size!r}; choose one of: {', '.join(SIZES)}, or a number.")
    count = SIZES[size] if isinstance(size, str) else size
    if count < SMALLEST:
        raise ValueError(f"A catalogue must have at least {SMALLEST} products, got {count}.")
    return count


def _choose_count(count: int, remaining: int) -> int:
    """Return the number of members. The remaining products are none, or enough for a family."""
    if remaining <= LARGEST:
        return remaining
    return min(count, remaining - SMALLEST)


def _role(seed: int, held_out: bool, number: int) -> tuple[str, Type, Type | None]:
    """Return the split and type of a family, and a similar type that one of its products may have, or None.

    Of ten consecutive families six are for training, and one is for each of the four other splits. The first two
    families of a shelf have one type, and the third has a sibling of it.
    """
    # A function of the family's number alone, so that `goal_ids` finds splits without generating products.
    block, position = divmod(number, len(_ROLES))
    roles = _order(seed, held_out, 0, block, len(_ROLES))
    role = _ROLES[roles[position]]
    apart = role == "ood_type"
    kinds = _kinds(apart)
    # `turn` counts the families with the same pool of types: held-out types are for the split `ood_type` alone.
    usual = sum(_ROLES[role_index] != "ood_type" for role_index in roles[:position])
    turn = block if apart else block * (len(_ROLES) - 1) + usual
    shelf, shelf_position = divmod(turn, _SHELF)
    turn, rank = divmod(shelf, len(kinds))
    kind = kinds[_order(seed, held_out, 1 + apart, turn, len(kinds))[rank]]
    near = siblings()[kind.name]
    if not near:
        return role, kind, None
    sibling = near[_order(seed, held_out, 3 + apart, shelf, len(near))[0]]
    return (role, sibling, kind) if shelf_position == _SHELF - 1 else (role, kind, sibling)


@lru_cache(maxsize=64)
def _order(seed: int, held_out: bool, purpose: int, turn: int, count: int) -> tuple[int, ...]:
    return tuple(Draws(seed, _ORDER, held_out, purpose, turn).permute(range(count)))


@lru_cache(maxsize=2)
def _kinds(apart: bool) -> tuple[Type, ...]:
    return tuple(kind for kind in product_types() if kind.held_out == apart)


def _choose_split(seed: int, number: int) -> str:
    """Return the split of a family of the main catalogue."""
    block, position = divmod(number, len(_ROLES))
    return _ROLES[_order(seed, False, 0, block, len(_ROLES))[position]]


def _asin(seed: int, held_out: bool, family: int, member_index: int) -> str:
    """Return an id of ten characters that looks random and is unique within a catalogue."""
    # Every family reserves the same count of numbers, so that `family_of` can invert the id by division.
    number = family * (LARGEST + 3) + member_index
    code = ((number + 1) * _STRIDE + (2 * seed + held_out) * _APART) % _ASINS
    letters = []
    for _ in range(8):
        code, letter = divmod(code, 36)
        letters.append(_LETTERS[letter])
    return "B0" + "".join(letters)


def family_of(asin: str, *, held_out: bool, seed: int = 0) -> int:
    """Return the number of a generated product's family, the inverse of `_asin`.

    Args:
        held_out: True for the held-out catalogue.
    """
    code = 0
    for letter in reversed(asin[2:]):
        code = code * 36 + _LETTERS.index(letter)
    # The modular inverse of the stride undoes the multiplication.
    number = (code - (2 * seed + held_out) * _APART) * pow(_STRIDE, -1, _ASINS) % _ASINS - 1
    return number // (LARGEST + 3)


def seed_of(asin: str, size: str, *, held_out: bool) -> int | None:
    """Return the seed of the built-in catalogue that has a product, or None if there is none.

    Args:
        size: Name of the catalogue's size.
        held_out: True for the held-out catalogues.
    """
    if len(asin) != _LENGTH or not set(asin[2:]) <= set(_LETTERS):
        return None
    # A family has at least `SMALLEST` products, and an id of another seed has a number far above all families.
    highest_family = SIZES[size] // SMALLEST
    # A size without a certificate has one catalogue, too.
    seeds = range(max(1, len(certificates(size, held_out))))
    return next((seed for seed in seeds if family_of(asin, held_out=held_out, seed=seed) <= highest_family), None)
