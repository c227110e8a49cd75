"""Whole catalogues, and those that several tests read, made once."""

from functools import cache
from typing import Any, NamedTuple

from dev.speed.webshop import about
from mage_envs.games.webshop.catalogue_maker.goals import CatalogueGoal
from mage_envs.games.webshop.catalogue_maker.make import TYPOS, stream


class Made(NamedTuple):
    """A whole catalogue in the form of the official files."""

    products: list[dict[str, Any]]
    """Entries of items_shuffle.json."""
    attributes: dict[str, dict[str, Any]]
    """The object of items_ins_v2.json: asin to attributes, instruction and its attributes."""
    goals: list[CatalogueGoal]


def make(size: str | int = "small", seed: int = 0, *, held_out: bool = False, typos: float = TYPOS) -> Made:
    """The catalogue of a size (a name of `SIZES` or a number of products) and a seed.

    `held_out` gives another catalogue, whose goals all belong to the split `ood_catalogue`.
    """
    result = Made([], {}, [])
    for record in stream(size, seed, held_out=held_out, typos=typos):
        for member, listing in zip(record.members, record.listings, strict=True):
            result.products.append(listing.raw)
            result.attributes[listing.raw["asin"]] = about(member)
        result.goals.extend(record.goals)
    return result


@cache
def catalogue(size="small", seed=0):
    return make(size, seed)
