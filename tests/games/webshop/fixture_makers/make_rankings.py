"""Golden search results of real Lucene: 300 queries x 50 over the built-in catalogue and over odd texts.

    python -m tests.games.webshop.fixture_makers.make_rankings tests/games/webshop/search/fixtures

Needs what `lucene.py` names. A file holds JSON, compressed by xz: `documents` (id, text),
`queries`, and for each query `hits` (numbers of documents, best first) and `scores` (32-bit floats as their bits).
"""

from __future__ import annotations

import argparse
import json
import lzma
import tempfile
from pathlib import Path

import numpy as np

from mage_envs.games.webshop.catalogue_maker.make import stream
from mage_envs.games.webshop.products import normalise
from tests.games.webshop.fixture_makers import odd_texts
from tests.games.webshop.fixture_makers.lucene import Searcher

HITS = 50
PRODUCTS = 1000
QUERIES = 300


def catalogue() -> tuple[list[tuple[str, str]], list[str]]:
    """Texts of the small built-in catalogue, and queries: instructions with a price, without one, and their ends."""
    documents: list[tuple[str, str]] = []
    instructions: list[tuple[str, float]] = []
    for family in stream(PRODUCTS):
        for listing in family.listings:
            product = normalise(listing.raw, {"attributes": []})
            documents.append((product.asin, product.search_text()))
        instructions += [(goal.instruction, goal.price_upper) for goal in family.goals]
    queries = []
    rng = np.random.default_rng(0)
    for number, position in enumerate(rng.permutation(len(instructions))[:QUERIES]):
        text, price = instructions[position]
        full = f"{text}, and price lower than {price:.2f} dollars"
        queries.append((full, text, " ".join(text.split()[-4:]))[number % 3])
    return documents, queries


def write(path: Path, documents: list[tuple[str, str]], queries: list[str]) -> None:
    """Query Lucene and write its answers."""
    numbers = {identifier: number for number, (identifier, _) in enumerate(documents)}
    hits, scores = [], []
    with tempfile.TemporaryDirectory() as folder:
        searcher = Searcher(documents, Path(folder))
        for query in queries:
            hits_found = searcher.hits(query, HITS)
            hits.append([numbers[identifier] for identifier, _ in hits_found])
            scores.append(np.array([score for _, score in hits_found], np.float32).view(np.uint32).tolist())
    content = {"documents": documents, "queries": queries, "hits": hits, "scores": scores}
    stored = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()
    path.write_bytes(lzma.compress(stored, preset=9 | lzma.PRESET_EXTREME))


def main() -> None:
    parser = argparse.ArgumentParser(description="Golden search results of real Lucene.")
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    write(folder / "rankings_catalogue.json.xz", *catalogue())
    write(folder / "rankings_odd.json.xz", odd_texts.documents(), odd_texts.queries())


if __name__ == "__main__":
    main()
