"""The search engine, which returns the best documents for a query with the order and scores of Lucene's BM25."""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mage_envs.games.webshop.search.analysis import term, words
from mage_envs.games.webshop.search.arrays import IndexArrays, open_arrays
from mage_envs.games.webshop.search.bm25 import divisors, mean_length, weight

MAX_QUERY = 32_768
"""Maximum number of characters of a query. The rest is ignored, so that no query takes long."""
_MARGIN = 1 + 1e-6
"""Tolerance of pruning: a score that may round to the same 32-bit float as the threshold is not dropped."""
_SPARSE = 16
"""Ratio of postings to candidates from which candidates are looked up one by one."""
_BLOCK = 1 << 17
"""Number of documents per block; a block is scored at once."""
_PART = 1 << 13
"""Number of postings per read."""
_KEPT_WORDS = 4096
"""Number of words of recent queries with a cached term, and of terms with a cached weight."""
_NO_SCORES: NDArray[np.float64] = np.zeros(0)


class Hit(NamedTuple):
    """A result of a search."""

    document: int
    """Number of the document, from 0 in the order in which the documents were indexed."""
    score: np.float32


class _Term(NamedTuple):
    """A term of a query: the range of its postings, its weight, and its maximum contribution to a score."""

    first: int
    last: int
    weight: np.float32
    most: float


class _Scratch(threading.local):
    """A thread's own array for sums of scores.

    It is reused, because allocating a megabyte per search would fragment the heap of every process.
    """

    def __init__(self, size: int) -> None:
        self.room = np.empty(size)


class Index:
    """A searchable index of documents. Threads and processes can share it.

    A query is a bag of words: each distinct term counts as often as it occurs. The results are the documents with at
    least one of the terms, best score first. Equal scores are sorted by id.
    """

    def __init__(self, arrays: IndexArrays) -> None:
        self.arrays = arrays
        self._size = len(arrays.ranks)
        self._documents, self._pairs, self._ranks = arrays.documents, arrays.pairs, arrays.ranks
        self._with_terms, total = arrays.totals.tolist()
        self._divisors = divisors(
            arrays.pair_table[:, 0], arrays.pair_table[:, 1], mean_length(total, self._with_terms)
        )
        # Slicing a memoryview is faster than slicing an array, and the binary search for a term slices often.
        self._vocabulary = arrays.vocabulary.data
        self._vocabulary_starts = arrays.vocabulary_starts.data
        self._scratch = _Scratch(min(_BLOCK, self._size))
        self._number = lru_cache(_KEPT_WORDS)(self._find)
        self._term = lru_cache(_KEPT_WORDS)(self._weighted)

    @classmethod
    def open(cls, folder: str | os.PathLike[str], checked: Callable[[Path], Path] = Path) -> Index:
        """Return the index in a folder, mapped from its files. `checked` verifies a file before its first use."""
        return cls(open_arrays(Path(folder), checked))

    def __len__(self) -> int:
        return self._size

    def search(self, query: str, k: int = 50) -> tuple[int, ...]:
        """Return the numbers of the `k` best documents, best first."""
        return tuple(self._found(query, k)[0].tolist())

    def hits(self, query: str, k: int = 50) -> list[Hit]:
        """Return the `k` best documents with their scores, best first. Raises ValueError if `k` is less than 1."""
        documents, scores = self._found(query, k)
        return list(map(Hit, documents.tolist(), scores))

    def _found(self, query: str, k: int) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}.")
        candidates, scores = self._candidates(self._terms(query), k)
        return self._best(candidates, scores.astype(np.float32), k)

    # -- the terms of a query --------------------------------------------------------------------------------------

    def _terms(self, query: str) -> list[_Term]:
        """Return the query's terms in the index, by descending maximum contribution."""
        counts = Counter(map(self._number, words(query[:MAX_QUERY])))
        found = [self._term(number, count) for number, count in counts.items() if number is not None]
        return sorted(found, key=lambda wanted: (-wanted.most, wanted.first))

    def _weighted(self, number: int, count: int) -> _Term:
        """Return the term of that number for a query that has it `count` times."""
        first, last = self.arrays.starts[number : number + 2].tolist()
        heavy = weight(count, last - first, self._with_terms)
        return _Term(first, last, heavy, float(heavy - heavy / self.arrays.best[number]))

    def _find(self, word: str) -> int | None:
        """Return the number of a word's term, or None if it is a stop word or not in the index."""
        found = term(word)
        if found is None:
            return None
        name = found.encode("utf-8")
        place = bisect_left(range(len(self._vocabulary_starts) - 1), name, key=self._name)
        return place if place < len(self._vocabulary_starts) - 1 and self._name(place) == name else None

    def _name(self, number: int) -> bytes:
        starts = self._vocabulary_starts
        return bytes(self._vocabulary[starts[number] : starts[number + 1]])

    # -- scores ----------------------------------------------------------------------------------------------------

    def _candidates(self, wanted: list[_Term], k: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return candidates that include the `k` best documents, and their scores, in 64 bits as in Lucene."""
        # Documents are processed in blocks, so that the scores of a block fit in the processor's cache (one megabyte).
        bounds = [*range(0, self._size, _BLOCK), self._size]
        cuts: list[list[int]] = []
        # The only block of a small index has all postings of a term, so they need no cuts.
        if len(bounds) > 2:
            limits = np.array(bounds, np.uint32)
            cuts = [
                (first + np.searchsorted(self._documents[first:last], limits)).tolist() for first, last, _, _ in wanted
            ]
        # left[i] bounds the total contribution of the terms from i on.
        left = list(accumulate((term.most for term in reversed(wanted)), initial=0.0))[::-1]
        room = self._scratch.room
        candidates, scores, floor = np.zeros(0, np.intp), _NO_SCORES, 0.0
        for block, (start, end) in enumerate(pairwise(bounds)):
            here = wanted
            if cuts:
                here = [
                    _Term(cut[block], cut[block + 1], weight, most)
                    for (_, _, weight, most), cut in zip(wanted, cuts, strict=True)
                ]
            more, found, floor = self._in_block(start, here, left, k, floor, room[: end - start])
            if len(more):
                candidates, scores = np.concatenate([candidates, more + start]), np.concatenate([scores, found])
            # After the last block, the caller drops all but the best.
            if len(more) and end < self._size:
                floor, _ = _raised(floor, scores, k)
                kept = scores > floor / _MARGIN
                candidates, scores = candidates[kept], scores[kept]
        return candidates, scores

    def _in_block(
        self, start: int, wanted: list[_Term], left: list[float], k: int, floor: float, room: NDArray[np.float64]
    ) -> tuple[NDArray[np.intp], NDArray[np.float64], float]:
        """Return the candidates of a block, their scores, and the new threshold `floor`.

        Documents are counted from the block's `start`. `room` has one entry per document of the block.
        """
        # Max-score pruning: terms come by descending maximum contribution. If `k` documents have a score (`floor`) that
        # the remaining terms cannot reach together, a document without an earlier term cannot be among the best. Then
        # the remaining terms are looked up only in the candidates.
        room.fill(0.0)
        taken = 0
        while taken < len(wanted) and left[taken] * _MARGIN >= floor:
            best = _NO_SCORES
            for documents, added in self._parts(wanted[taken], start):
                sums = room[documents]
                sums += added
                room[documents] = sums
                floor, best = _raised(floor, sums, k, best)
            taken += 1
        candidates = np.flatnonzero(room > max(0.0, floor - left[taken]) / _MARGIN)
        found = room[candidates]
        for position in range(taken, len(wanted)):
            if not len(candidates):
                break
            found += self._looked_up(wanted[position], candidates, start, room)
            floor, _ = _raised(floor, found, k)
            kept = found > (floor - left[position + 1]) / _MARGIN
            candidates, found = candidates[kept], found[kept]
        return candidates, found, floor

    def _parts(self, wanted: _Term, start: int) -> Iterator[tuple[NDArray[np.intp], NDArray[np.float32]]]:
        """Yield (documents, contributions) of a term in the block at `start`; documents are counted from there."""
        # In parts, so that the temporary arrays stay in the processor's cache. The C library would also keep the memory
        # of large arrays after their release, megabytes of it in each process.
        for first in range(wanted.first, wanted.last, _PART):
            some = slice(first, min(first + _PART, wanted.last))
            documents = self._documents[some].astype(np.intp)
            documents -= start
            yield documents, self._added(wanted.weight, self._pairs[some])

    def _added(self, heavy: np.float32, pairs: NDArray[Any]) -> NDArray[np.float32]:
        """Return the contribution of a term of this weight to documents with these pairs."""
        # With more postings than distinct pairs it is faster to evaluate the formula once per pair.
        if len(pairs) > len(self._divisors):
            every: NDArray[np.float32] = heavy - heavy / self._divisors
            return every.take(pairs)
        added: NDArray[np.float32] = heavy - heavy / self._divisors.take(pairs)
        return added

    def _looked_up(
        self, wanted: _Term, candidates: NDArray[np.intp], start: int, room: NDArray[np.float64]
    ) -> NDArray[Any]:
        """Return the contribution of a term to each candidate of the block at `start`. Overwrites `room`."""
        first, last, heavy, _ = wanted
        if first == last:
            return np.zeros(len(candidates), np.float32)
        if len(candidates) * _SPARSE > last - first:
            room.fill(0.0)
            for documents, added in self._parts(wanted, start):
                room[documents] = added
            return room[candidates]
        having, numbers = self._documents[first:last], (candidates + start).astype(np.uint32)
        # Without the last posting every place is valid: a number behind all others gets the place of the last one.
        places = np.searchsorted(having[:-1], numbers)
        found: NDArray[np.float32] = self._added(heavy, self._pairs[first:last].take(places))
        found *= having.take(places) == numbers
        return found

    def _best(
        self, candidates: NDArray[np.intp], scores: NDArray[np.float32], k: int
    ) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        """Return the `k` best documents with their scores, best first."""
        # A partition drops most candidates in linear time. Ties with the k-th score stay, since ids decide them.
        if len(candidates) > k:
            least = np.partition(scores, len(scores) - k)[-k]
            kept = scores >= least
            candidates, scores = candidates[kept], scores[kept]
        order = np.lexsort((self._ranks[candidates], -scores))[:k]
        return candidates[order], scores[order]


def _raised(
    floor: float, scores: NDArray[np.float64], k: int, others: NDArray[np.float64] = _NO_SCORES
) -> tuple[float, NDArray[np.float64]]:
    """Return the new threshold and the best scores, at most `k` of them.

    The threshold is the `k`-th best score if that is above `floor`, else `floor`. `others` are the best scores of
    other documents so far.
    """
    best = scores[scores > floor]
    if len(others):
        best = np.concatenate([others, best])
    if len(best) < k:
        return floor, best
    best = np.partition(best, len(best) - k)[-k:]
    return float(best[0]), best
