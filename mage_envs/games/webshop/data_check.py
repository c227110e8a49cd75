"""Facts about a folder with WebShop's data, as `mage doctor webshop:DIR` prints them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mage_envs.games.webshop.cache import MANIFEST, read_manifest, verify
from mage_envs.games.webshop.catalogue_maker.make import SIZES as BUILT_IN
from mage_envs.games.webshop.embedded import generate_catalogue
from mage_envs.games.webshop.official import SIZES, WHERE, DataFileError, import_official
from mage_envs.games.webshop.reward import Tagger, score
from mage_envs.games.webshop.search.nouns import nouns, spacy_nouns
from mage_envs.games.webshop.shop import Shop, open_shop


class Comparison(NamedTuple):
    """Result of a comparison of two taggers."""

    purchases: int
    differing: int
    """Number of purchases with different scores."""
    highest: float
    """Highest score among the purchases that differ, or 0 if none differs."""


def compare_taggers(shop: Shop, tagger: Tagger, purchases: int, other_tagger: Tagger = nouns) -> Comparison:
    """Return the comparison of two taggers on random purchases.

    Every third purchase is a result of a search with the instruction. The others are random products.

    Args:
        other_tagger: The second tagger (default: the built-in one).
    """
    rng = np.random.default_rng(0)
    differing, highest = 0, 0.0
    for number in range(purchases):
        goal = shop.goal_at(int(rng.integers(len(shop))))
        hits = shop.search(goal.instruction) if number % 3 == 0 else ()
        position = hits[int(rng.integers(len(hits)))] if hits else int(rng.integers(len(shop.catalogue)))
        product = shop.catalogue.product(position)
        price = product.price(shop.seed)
        totals = {score(product, goal, price, {}, compared_tagger).total for compared_tagger in (tagger, other_tagger)}
        if len(totals) > 1:
            differing += 1
            highest = max(highest, *totals)
    return Comparison(purchases, differing, highest)


PURCHASES = 2000
"""Number of purchases that are scored with both taggers."""


def describe_data(name: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each fact about a catalogue.

    Args:
        name: Size of a built-in catalogue, a folder with the original's files, or one that a conversion made of them.
            The original's files are converted first, which takes minutes once. A converted folder is compared with its
            checksums.

    Raises:
        DataFileError: If a folder holds neither, or if a file is damaged.
    """
    folder = Path(name)
    if name in BUILT_IN and not folder.is_dir():
        yield from _describe(generate_catalogue(name, "train"))
        return
    if (folder / MANIFEST).is_file():
        verify(folder)
        yield "checksums", "all files match"
        yield from _describe(folder)
        return
    sizes = [size for size, files in SIZES.items() if all((folder / name).is_file() for name in files)]
    if not sizes:
        raise DataFileError(f"{folder} has no {' and '.join(SIZES['small'])}; {WHERE}.")
    for size in sizes:
        built = import_official(folder, size)
        yield f"{size} data, converted", str(built)
        yield from _describe(built)


def _describe(folder: Path) -> Iterator[tuple[str, str]]:
    manifest = read_manifest(folder)
    yield "products", f"{manifest['products']:,}"
    try:
        tagger = spacy_nouns()
    except ImportError as error:
        tagger = None
        yield "spaCy's tagger", f"n/a ({error})"
    for kind in (kind for kind, counts in manifest["goals"].items() if counts):
        shop = open_shop(folder, kind, 0)
        splits = ", ".join(f"{split} {count}" for split, count in shop.splits.items())
        yield f"{kind} goals", f"{len(shop)} ({splits}), fingerprint {shop.fingerprint}"
        if tagger is not None:
            result = compare_taggers(shop, tagger, PURCHASES)
            text = f"{result.differing} of {result.purchases} purchases score differently"
            yield f"{kind} goals by spaCy", f"{text}, with a highest score of {result.highest:.3f}"
