"""Building of a search index: documents are inverted shard by shard, then the shards are merged.

`write_index` stores shards and result on disk, and processes them in parts. Memory contains one shard (about 120 MB),
the vocabulary and the ids, for any number of documents.
"""

from __future__ import annotations

import heapq
import os
import shutil
from array import array
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mage_envs.games.webshop.search.analysis import term, words
from mage_envs.games.webshop.search.arrays import PackedTexts, mark_complete, write_parts
from mage_envs.games.webshop.search.bm25 import divisors, length_codes, mean_length

SHARD_TERMS = 2_000_000
"""Number of terms of text per shard."""
_MERGED_AT_ONCE = 2_000_000
"""Number of postings per merged part."""
_KNOWN_WORDS = 250_000
"""Maximum number of words with a cached term number, checked after each shard."""
_TERMS_AT_ONCE = 4096
"""Number of terms per read of a shard's vocabulary."""
NARROW = 1 << 16
"""Maximum number of distinct pairs with 16 bits."""


def write_index(
    documents: Iterable[tuple[str, str]], folder: str | os.PathLike[str], shard_terms: int = SHARD_TERMS
) -> None:
    """Write the index of documents into a folder.

    Args:
        documents: (id, text) of each document.
        folder: Folder for the index; it is created if it does not exist.
        shard_terms: Number of terms of text per shard.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    shelf = target / "shards.partial"
    inverter, shards = _Inverter(), list[_Shard]()
    try:
        for identifier, text in documents:
            inverter.add(identifier, text)
            if inverter.size >= shard_terms:
                shards.append(inverter.shard(shelf / str(len(shards))))
        shards.append(inverter.shard(shelf / str(len(shards))))
        totals = np.array([inverter.with_terms, inverter.terms], np.int64)
        _write_merged(shards, inverter.ranks(), totals, target)
    finally:
        with suppress(FileNotFoundError):
            shutil.rmtree(shelf)
    mark_complete(target)


# -- shards ----------------------------------------------------------------------------------------------------


class _StoredArray:
    """An array in a file. Memory contains only the requested slice."""

    def __init__(self, path: Path, values: NDArray[Any]) -> None:
        self._path = path
        np.save(path, values)

    def __getitem__(self, span: slice) -> NDArray[Any]:
        # A copy, because mapped pages would count as memory for as long as the map exists.
        return np.array(np.load(self._path, "r")[span])


@dataclass(frozen=True)
class _Shard:
    """The postings of consecutive documents.

    A key is (count of the term in the document) << 8 | (code of the document's length).
    """

    size: int
    """Number of terms."""
    distinct_keys: NDArray[np.int64]
    documents: _StoredArray
    keys: _StoredArray
    starts: _StoredArray
    """Start of each term's postings, and the end of the last."""
    vocabulary: _StoredArray
    vocabulary_starts: _StoredArray

    def terms(self) -> Iterator[bytes]:
        for first_term in range(0, self.size, _TERMS_AT_ONCE):
            starts = self.vocabulary_starts[first_term : first_term + _TERMS_AT_ONCE + 1].tolist()
            text = self.vocabulary[starts[0] : starts[-1]].tobytes()
            for start, end in pairwise(starts):
                yield text[start - starts[0] : end - starts[0]]


class _Words(dict[str, int]):
    """The number of each word's term, or -1 for a stop word. Terms are numbered in order of appearance."""

    def __init__(self) -> None:
        super().__init__()
        self.terms: dict[str, int] = {}

    def __missing__(self, word: str) -> int:
        word_term = term(word)
        number = self[word] = -1 if word_term is None else self.terms.setdefault(word_term, len(self.terms))
        return number


class _Inverter:
    """Collector of documents that returns them as shards."""

    def __init__(self) -> None:
        self.with_terms = 0
        self.terms = 0
        self._words = _Words()
        self._numbers = array("i")
        self._lengths = array("q")
        self._ids = PackedTexts()

    def add(self, identifier: str, text: str) -> None:
        self._ids.add(identifier)
        # Each distinct word is stemmed once; the dict supplies the number of its term afterwards.
        numbers = [number for number in map(self._words.__getitem__, words(text)) if number >= 0]
        self._numbers.extend(numbers)
        self._lengths.append(len(numbers))
        self.with_terms += bool(numbers)
        self.terms += len(numbers)

    @property
    def size(self) -> int:
        """Number of terms in the documents since the last shard."""
        return len(self._numbers)

    def shard(self, folder: Path) -> _Shard:
        """Return the documents since the last shard as a shard in the new folder."""
        encoded_terms = [word_term.encode("utf-8") for word_term in self._words.terms]
        numbers, lengths = np.frombuffer(self._numbers, np.int32), np.frombuffer(self._lengths, np.int64)
        used = np.flatnonzero(np.bincount(numbers, minlength=len(encoded_terms))).tolist()
        order = sorted(used, key=encoded_terms.__getitem__)
        positions = np.zeros(len(encoded_terms), np.int64)
        positions[order] = np.arange(len(order), dtype=np.int64)
        # One integer per occurrence, term << 32 | document, so that a single sort groups and counts the postings.
        occurrences = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
        occurrences |= positions[numbers] << 32
        postings, counts = np.unique(occurrences, return_counts=True)
        shard_documents = (postings & 0xFFFFFFFF).astype(np.uint32)
        keys = counts.astype(np.int64) << 8 | length_codes(lengths)[shard_documents]
        sizes = np.bincount(postings >> 32, minlength=len(order))
        first_document = np.uint32(len(self._ids) - len(lengths))
        self._numbers, self._lengths = array("i"), array("q")
        # The cache of words would grow with the catalogue, so a full one is dropped between shards.
        if len(self._words) > _KNOWN_WORDS:
            self._words = _Words()
        vocabulary, vocabulary_starts = _pack_terms(encoded_terms[number] for number in order)
        folder.mkdir(parents=True)
        return _Shard(
            size=len(order),
            distinct_keys=_distinct(keys),
            documents=_StoredArray(folder / "documents.npy", shard_documents + first_document),
            keys=_StoredArray(folder / "keys.npy", keys),
            starts=_StoredArray(folder / "starts.npy", _starts(sizes)),
            vocabulary=_StoredArray(folder / "vocabulary.npy", vocabulary),
            vocabulary_starts=_StoredArray(folder / "vocabulary_starts.npy", vocabulary_starts),
        )

    def ranks(self) -> NDArray[np.uint32]:
        """Return the place of each document in the order of ids, shape (documents,)."""
        ranks = np.empty(len(self._ids), np.uint32)
        # NumPy ignores zero bytes at the end of an id, so ids that differ in them are sorted by length.
        order = np.lexsort((self._ids.lengths(), self._ids.fixed_width()))
        ranks[order] = np.arange(len(order), dtype=np.uint32)
        return ranks


def _distinct(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the distinct values in ascending order."""
    # Without the counts `np.unique` would import NumPy's masked arrays, which takes 13 ms.
    return np.unique(values, return_counts=True)[0]


def _starts(sizes: NDArray[Any]) -> NDArray[np.int64]:
    starts = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=starts[1:], dtype=np.int64)
    return starts


def _pack_terms(terms: Iterable[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    text, ends = bytearray(), array("q", [0])
    for encoded_term in terms:
        text += encoded_term
        ends.append(len(text))
    return np.frombuffer(bytes(text), np.uint8), np.frombuffer(ends, np.int64)


# -- merging ---------------------------------------------------------------------------------------------------


def _write_merged(shards: list[_Shard], ranks: NDArray[np.uint32], totals: NDArray[np.int64], target: Path) -> None:
    vocabulary, vocabulary_starts, numbers = _vocabulary(shards)
    sizes = np.zeros(len(vocabulary_starts) - 1, np.int64)
    for shard, shard_numbers in zip(shards, numbers):
        sizes[shard_numbers] += np.diff(shard.starts[:])
    starts = _starts(sizes)
    # Many postings share a pair, so a posting stores the row of its pair, which needs fewer bits.
    keys = _distinct(np.concatenate([shard.distinct_keys for shard in shards]))
    table = np.stack([keys >> 8, keys & 255], axis=1).astype(np.uint32)
    pair_divisors = divisors(table[:, 0], table[:, 1], mean_length(int(totals[1]), int(totals[0])))
    best = np.zeros(len(sizes), np.float32)

    def documents() -> Iterator[NDArray[Any]]:
        for _, posting_values in _merge_by_term(shards, numbers, starts, "documents"):
            yield posting_values

    def pairs() -> Iterator[NDArray[Any]]:
        for run, posting_values in _merge_by_term(shards, numbers, starts, "keys"):
            rows = np.searchsorted(keys, posting_values)
            best[run] = np.maximum.reduceat(pair_divisors[rows], starts[run] - starts[run.start])
            yield rows

    size = (int(starts[-1]),)
    write_parts(target / "documents.npy", np.uint32, size, documents())
    write_parts(target / "pairs.npy", np.uint16 if len(keys) <= NARROW else np.uint32, size, pairs())
    arrays: dict[str, NDArray[Any]] = {
        "best": best,
        "pair_table": table,
        "starts": starts,
        "vocabulary": vocabulary,
        "vocabulary_starts": vocabulary_starts,
        "ranks": ranks,
        "totals": totals,
    }
    for name, values in arrays.items():
        np.save(target / f"{name}.npy", values)


def _merge_by_term(
    shards: list[_Shard], numbers: list[NDArray[np.uint32]], starts: NDArray[np.int64], name: str
) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Yield (run of terms, values of its postings in the array `name` of all shards)."""
    # Shards contain consecutive documents, so appending them in order keeps the postings sorted by document.
    for run in _parts(starts):
        begin = starts[run.start]
        free = starts[run] - begin
        posting_values = np.zeros(int(starts[run.stop] - begin), np.int64)
        for shard, shard_numbers in zip(shards, numbers):
            low, high = np.searchsorted(shard_numbers, (run.start, run.stop)).tolist()
            if low == high:
                continue
            run_terms = shard_numbers[low:high] - np.uint32(run.start)
            posting_starts = shard.starts[low : high + 1]
            size = np.diff(posting_starts)
            postings = slice(int(posting_starts[0]), int(posting_starts[-1]))
            positions = np.repeat(free[run_terms] - posting_starts[:-1], size) + np.arange(
                posting_starts[0], posting_starts[-1], dtype=np.int64
            )
            posting_values[positions] = shard.__dict__[name][postings]
            free[run_terms] += size
        yield run, posting_values


def _parts(starts: NDArray[np.int64]) -> Iterator[slice]:
    """Yield runs of terms with about `_MERGED_AT_ONCE` postings each."""
    begin, terms = 0, len(starts) - 1
    while begin < terms:
        end = int(np.searchsorted(starts, starts[begin] + _MERGED_AT_ONCE, "right")) - 1
        end = min(max(end, begin + 1), terms)
        yield slice(begin, end)
        begin = end


def _vocabulary(shards: list[_Shard]) -> tuple[NDArray[np.uint8], NDArray[np.int64], list[NDArray[np.uint32]]]:
    """Return the terms of all shards, packed, and for each shard the numbers of its terms among them."""
    numbers = [array("I") for _ in shards]

    def label_terms(shard: _Shard, shard_number: int) -> Iterator[tuple[bytes, int]]:
        for encoded_term in shard.terms():
            yield encoded_term, shard_number

    def merge_terms() -> Iterator[bytes]:
        previous_term, count = None, 0
        for encoded_term, shard_number in heapq.merge(
            *(label_terms(shard, shard_number) for shard_number, shard in enumerate(shards))
        ):
            if encoded_term != previous_term:
                yield encoded_term
                previous_term, count = encoded_term, count + 1
            numbers[shard_number].append(count - 1)

    text, starts = _pack_terms(merge_terms())
    return text, starts, [np.frombuffer(shard_numbers, np.uint32) for shard_numbers in numbers]
