"""The built-in catalogue, which is generated at its first use and then read from the cache.

`dev/webshop_catalogue` proves the goals of a catalogue: the product of each earns exactly 1.0, and a search finds it.
The certificate of a generated catalogue shows that it is the proven one. A catalogue without a certificate is not
proven, which a warning says.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from hashlib import file_digest
from pathlib import Path
from typing import Any

from mage_envs.games.webshop.cache import build_cached_folder
from mage_envs.games.webshop.catalogue_maker.goals import CatalogueGoal
from mage_envs.games.webshop.catalogue_maker.make import SIZES, VERSION, FamilyRecord, certificates, stream
from mage_envs.games.webshop.products import MadeGoal, Product, normalise
from mage_envs.games.webshop.store import FORMAT, write_catalogue
from mage_envs.progress import Progress

_LOG = logging.getLogger(__name__)
HELD_OUT = "ood_catalogue"
"""The split with its own catalogue."""


class Unproven(RuntimeError):
    """A generated catalogue that is not a proven one, or a goal that cannot be reached with full reward."""


def generate_catalogue(size: str, split: str, seed: int = 0) -> Path:
    """Return the folder of a generated catalogue, and build it if it does not exist.

    Args:
        split: Split of the goals. `ood_catalogue` selects the held-out catalogue.

    Raises:
        ValueError: If the size is unknown.
        Unproven: If the generated catalogue is not the proven one.
    """
    if size not in SIZES:
        raise ValueError(f"size={size!r} is unknown; choose one of: {', '.join(map(repr, SIZES))}.")
    held_out = split == HELD_OUT
    # The key names everything that the content depends on: word lists and draws, and file format.
    key = f"made-{size}-{VERSION}.{FORMAT}{'-held-out' if held_out else ''}-{seed}"
    return build_cached_folder(key, lambda draft: _generate(draft, size, held_out, seed))


def _generate(draft: Path, size: str, held_out: bool, seed: int) -> dict[str, Any]:
    families = stream(size, seed, held_out=held_out)
    about = write_catalogue(draft, products_of(log_progress(families, size)))
    digest, proven = certificate(draft), certificates(size, held_out)
    expected = proven[seed] if seed < len(proven) else None
    if expected is None:
        _LOG.warning("The goals of the catalogue %r, seed %d, are not proven.", size, seed)
    elif digest != expected:
        raise Unproven(
            f"The goals of the generated catalogue {size!r}, seed {seed}, are not proven: its certificate is {digest}, "
            f"expected {expected}; install mage-envs again, or prove a changed generator (dev/webshop_catalogue)."
        )
    return about | {
        "proven": expected is not None,
        "certificate": digest,
        "source": {"kind": "generated", "size": size, "version": VERSION, "held_out": held_out, "seed": seed},
    }


def log_progress(families: Iterable[FamilyRecord], size: str) -> Iterator[FamilyRecord]:
    """Yield the families of a size, and log the number of products so far."""
    progress, count = Progress(f"WebShop makes its catalogue {size!r}", SIZES[size], "products"), 0
    for family in families:
        yield family
        count += len(family.members)
        progress(count)


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
            goals.setdefault(goal.asin, []).append(to_made_goal(goal))
        for member, listing in zip(family.members, family.listings, strict=True):
            attributes = [attribute.name for attribute in member.attributes]
            yield normalise(listing.raw, {"attributes": attributes}, made_goals=goals.get(listing.raw["asin"], ()))


def to_made_goal(goal: CatalogueGoal) -> MadeGoal:
    """Return a generated goal in the form that the shop stores."""
    options = tuple(value for _, value in goal.options)
    return MadeGoal(
        split=goal.split,
        instruction=goal.text,
        attributes=goal.attributes,
        options=options,
        price_upper=goal.price_upper,
    )
