"""The built-in catalogue, which is generated at its first use and then read from the cache.

`dev/webshop_catalogue` proved each goal of every size: its product earns exactly 1.0, and a search finds it. The
certificate of a generated catalogue shows that it is the proven one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import file_digest
from pathlib import Path
from typing import Any

from mage_envs.cli.progress import Progress
from mage_envs.games.webshop.cache import cached
from mage_envs.games.webshop.catalogue_maker import (
    SIZES,
    VERSION,
    CatalogueGoal,
    FamilyRecord,
    certified,
    stream,
)
from mage_envs.games.webshop.products import MadeGoal, Product, normalise
from mage_envs.games.webshop.store import FORMAT, write_catalogue

HELD_OUT = "ood_catalogue"
"""The split with its own catalogue."""


class Unproven(RuntimeError):
    """A generated catalogue that is not a proven one, or a goal that cannot be reached with full reward."""


def embedded(size: str, split: str) -> Path:
    """Return the folder of a generated catalogue, and build it if it does not exist.

    Raises ValueError if the size is unknown, and Unproven if another catalogue than the proven one was generated.
    """
    if size not in SIZES:
        raise ValueError(f"size={size!r} is unknown; choose one of: {', '.join(map(repr, SIZES))}.")
    held_out = split == HELD_OUT
    # The key names everything that the content depends on: word lists and draws, and file format.
    key = f"made-{size}-{VERSION}.{FORMAT}{'-held-out' if held_out else ''}"
    return cached(key, lambda draft: _generate(draft, size, held_out))


def _generate(draft: Path, size: str, held_out: bool) -> dict[str, Any]:
    families = stream(size, held_out=held_out)
    about = write_catalogue(draft, products_of(counted(families, size)))
    known, expected = certificate(draft), certified(size, held_out)
    if known != expected:
        raise Unproven(
            f"The goals of the generated catalogue {size!r} are not proven: its certificate is {known}, expected "
            f"{expected}; install mage-envs again, or prove a changed generator (dev/webshop_catalogue)."
        )
    return about | {
        "proven": {"goals": sum(about["goals"]["made"].values()), "certificate": known},
        "source": {"kind": "generated", "size": size, "version": VERSION, "held_out": held_out},
    }


def counted(families: Iterable[FamilyRecord], size: str) -> Iterator[FamilyRecord]:
    """Yield the families of a size, and log the number of products so far."""
    tell, made = Progress(f"WebShop makes its catalogue {size!r}", SIZES[size], "products"), 0
    for family in families:
        yield family
        made += len(family.members)
        tell(made)


def certificate(folder: Path) -> str:
    """Return an identifier of the products and the index in a catalogue's folder."""
    # The format covers the index, because the same products and the same code give the same index.
    with (folder / "products.bin").open("rb") as file:
        return f"{FORMAT}-{file_digest(file, 'sha256').hexdigest()}"


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
    )
