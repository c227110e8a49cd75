"""The built-in catalogue, which is generated and verified at its first use and then read from the cache."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from mage_envs.cli.progress import Progress
from mage_envs.games.webshop.cache import cached
from mage_envs.games.webshop.catalogue_maker import (
    SIZES,
    VERSION,
    CatalogueGoal,
    FamilyRecord,
    edition,
    shipped,
    stream,
)
from mage_envs.games.webshop.catalogue_maker.guarantee import CERTIFIED, certificate, checked, searches
from mage_envs.games.webshop.products import MadeGoal, Product, from_record, normalise
from mage_envs.games.webshop.search.index import Index
from mage_envs.games.webshop.store import FORMAT, KeyedRecords, write_catalogue

HELD_OUT = "ood_catalogue"
"""The split with its own catalogue."""


def embedded(size: str, split: str) -> Path:
    """Return the folder of a generated catalogue, and build it if it does not exist."""
    if size not in SIZES:
        raise ValueError(f"size={size!r} is unknown; choose one of: {', '.join(map(repr, SIZES))}.")
    held_out = split == HELD_OUT
    # The key names everything that the content depends on: word lists and draws, file format, and choices of goals.
    key = f"made-{size}-{VERSION}.{FORMAT}-{edition(size, held_out)}{'-held-out' if held_out else ''}"
    return cached(key, lambda draft: _generate(draft, size, held_out))


def _generate(draft: Path, size: str, held_out: bool) -> dict[str, Any]:
    families = stream(size, held_out=held_out, chosen=shipped(size, held_out))
    about = write_proven(draft, _counted(families, size))
    return about | {"source": {"kind": "generated", "size": size, "version": VERSION, "held_out": held_out}}


def _counted(families: Iterable[FamilyRecord], size: str) -> Iterator[FamilyRecord]:
    """Yield the families, and log the number of products so far."""
    tell, made = Progress(f"WebShop makes its catalogue {size!r}", SIZES[size], "products"), 0
    for family in families:
        yield family
        made += len(family.members)
        tell(made)


def write_proven(draft: Path, families: Iterable[FamilyRecord]) -> dict[str, Any]:
    """Write a generated catalogue and prove each of its goals.

    Returns the entries of the manifest. Raises `guarantee.Unproven` if a goal cannot be reached with full reward.
    """
    about = write_catalogue(draft, checked(products_of(families)))
    known = certificate(draft)
    records = KeyedRecords(draft, "products", "asins")
    # The largest catalogues take minutes to search. Their proofs are recorded by certificate.
    if known not in CERTIFIED:
        searches(Index.open(draft / "index"), lambda position: from_record(records[position]))
    return about | {"proven": {"goals": sum(about["goals"]["made"].values()), "certificate": known}}


def products_of(families: Iterable[FamilyRecord]) -> Iterator[Product]:
    """Yield the products of generated families, with their goals."""
    for family in families:
        goals: dict[str, list[MadeGoal]] = {}
        for goal in family.goals:
            goals.setdefault(goal.asin, []).append(stored(goal))
        for member, shown in zip(family.members, family.listings, strict=True):
            attributes = [attribute.name for attribute in member.attributes]
            yield normalise(shown.raw, {"attributes": attributes}, made=goals.get(shown.raw["asin"], ()))


def stored(goal: CatalogueGoal) -> MadeGoal:
    """Return a generated goal in the form that the shop stores."""
    options = tuple(value for _, value in goal.options)
    return MadeGoal(
        split=goal.split,
        instruction=goal.text,
        attributes=goal.attributes,
        options=options,
        price_upper=goal.price_upper,
        standing=goal.standing,
    )
