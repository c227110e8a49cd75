"""Speed of WebShop's search on this machine: building, opening and searching, in CPU time.

    python -m benchmarks.webshop_search [--products 1000 100000]

Texts and queries are the built-in catalogue's: a third whole instructions with a price, a third without, a third the
last four words. No result is kept between searches.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mage_envs.games.webshop.catalogue_maker import stream
from mage_envs.games.webshop.products import normalise
from mage_envs.games.webshop.search.build import write_index
from mage_envs.games.webshop.search.index import Index

QUERIES = 600


class Texts:
    """The documents of a catalogue, generated while they are read, and the instructions met on the way."""

    def __init__(self, products: int) -> None:
        self._products = products
        self.instructions: list[str] = []
        self.seconds = 0.0
        """CPU time that generating took."""

    def __iter__(self) -> Iterator[tuple[str, str]]:
        families = stream(self._products)
        while True:
            started = time.process_time()
            family = next(families, None)
            if family is None:
                return
            products = [normalise(shown.raw, {"attributes": []}) for shown in family.listings]
            made = [(product.asin, product.indexed_text()) for product in products]
            self.instructions += [goal.instruction for goal in family.goals]
            self.seconds += time.process_time() - started
            yield from made


def queries(instructions: list[str]) -> list[str]:
    """Queries of all three kinds in turn."""
    rng = np.random.default_rng(0)
    drawn = [instructions[place] for place in rng.integers(len(instructions), size=QUERIES)]
    kinds = (lambda text: f"{text}, and price lower than 60.00 dollars", lambda text: text, _ending)
    return [kinds[number % 3](text) for number, text in enumerate(drawn)]


def _ending(text: str) -> str:
    return " ".join(text.split()[-4:])


def measure(products: int, folder: Path) -> dict[str, float]:
    """Figures by name: seconds to build, milliseconds to open and to search."""
    texts = Texts(products)
    started = time.process_time()
    write_index(texts, folder)
    built = time.process_time() - started - texts.seconds
    started = time.process_time()
    index = Index.open(folder)
    opened = time.process_time() - started
    asked = queries(texts.instructions)
    index.search(asked[0])
    taken = []
    for query in asked:
        started = time.process_time()
        index.search(query)
        taken.append(1000 * (time.process_time() - started))
    size = sum(path.stat().st_size for path in folder.iterdir())
    middle, slow = np.percentile(taken, [50, 99])
    return {
        "build, s": built,
        "size, MB": size / 1e6,
        "open, ms": 1000 * opened,
        "search p50, ms": float(middle),
        "search p99, ms": float(slow),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of WebShop's search, in CPU time.")
    parser.add_argument("--products", type=int, nargs="+", default=[1000], help="sizes of catalogues (default: 1000)")
    for products in parser.parse_args().products:
        with tempfile.TemporaryDirectory() as folder:
            figures = measure(products, Path(folder))
        print(f"{products:,} products: " + "   ".join(f"{name} {value:.2f}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
