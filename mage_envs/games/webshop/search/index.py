"""The search engine: the best documents for a query, in the order and with the scores of Lucene's BM25."""

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
"""Characters of a query that are read; what follows them is not, so that no query takes long."""
_MARGIN = 1 + 1e-6
"""Keeps pruning clear of rounding: what may round to the same 32-bit float as the score to beat is not dropped."""
_SPARSE = 16
"""Documents are looked up in a list of postings one by one if the list is this many times as long."""
_BLOCK = 1 << 17
"""Documents that are scored together."""
_PART = 1 << 13
"""Postings that are read together."""
_KEPT_WORDS = 4096
"""Words of recent queries whose term is remembered."""
_NO_SCORES: NDArray[np.float64] = np.zeros(0)


class Hit(NamedTuple):
    """A document that was found."""

    document: int
    """Its number; documents are counted from 0 in the order in which they were given."""
    score: np.float32


class _Term(NamedTuple):
    """A term of a query: where its postings are, its weight, and the most it adds to a score."""

    first: int
    last: int
    weight: np.float32
    most: float


class _Scratch(threading.local):
    """A thread's own place to add scores up in.

    It is kept from search to search: a megabyte that comes and goes would leave its hole in the heap, with small things
    of longer life on both sides of it, and each process would have more and more such holes.
    """

    def __init__(self, size: int) -> None:
        self.room = np.empty(size)


class Index:
    """Documents that can be searched. Threads and processes may share it.

    A query is a bag of words: each distinct term counts as often as it occurs. Documents with a common term are found,
    best score first, equal scores by id.
    """

    def __init__(self, arrays: IndexArrays) -> None:
        self.arrays = arrays
        self._size = len(arrays.ranks)
        self._documents, self._pairs, self._ranks = arrays.documents, arrays.pairs, arrays.ranks
        self._with_terms, total = arrays.totals.tolist()
        self._divisors = divisors(
            arrays.pair_table[:, 0], arrays.pair_table[:, 1], mean_length(total, self._with_terms)
        )
        self._vocabulary = arrays.vocabulary.data
        self._vocabulary_starts = arrays.vocabulary_starts.data
        self._scratch = _Scratch(min(_BLOCK, self._size))
        self._number = lru_cache(_KEPT_WORDS)(self._find)

    @classmethod
    def open(cls, folder: str | os.PathLike[str], checked: Callable[[Path], Path] = Path) -> Index:
        """The index in a folder, mapped from its files; `checked` gives out each before it is first read."""
        return cls(open_arrays(Path(folder), checked))

    def __len__(self) -> int:
        return self._size

    def search(self, query: str, k: int = 50) -> tuple[int, ...]:
        """The numbers of the `k` best documents, best first."""
        return tuple(hit.document for hit in self.hits(query, k))

    def hits(self, query: str, k: int = 50) -> list[Hit]:
        """The `k` best documents with their scores, best first."""
        if k < 1:
            raise ValueError(f"k is {k}; at least one document must be asked for.")
        wanted = self._terms(query)
        if not wanted:
            return []
        candidates, scores = self._candidates(wanted, k)
        return self._best(candidates, scores.astype(np.float32), k)

    # -- the terms of a query --------------------------------------------------------------------------------------

    def _terms(self, query: str) -> list[_Term]:
        """The query's terms that the index knows, those that can add most first."""
        found = []
        for number, count in Counter(map(self._number, words(query[:MAX_QUERY]))).items():
            if number is not None:
                first, last = int(self.arrays.starts[number]), int(self.arrays.starts[number + 1])
                heavy = weight(count, last - first, self._with_terms)
                found.append(_Term(first, last, heavy, float(heavy - heavy / self.arrays.best[number])))
        return sorted(found, key=lambda wanted: (-wanted.most, wanted.first))

    def _find(self, word: str) -> int | None:
        """The number of a word's term; None for a stop word, and for a term that no document has."""
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
        """Documents that hold the `k` best among them, and their scores, summed in 64 bits as Lucene sums them.

        A block of documents after the other, so that scores fit in a processor's cache, and in a megabyte.
        """
        bounds = np.append(np.arange(0, self._size, _BLOCK), self._size).astype(np.uint32)
        cuts = [(first + np.searchsorted(self._documents[first:last], bounds)).tolist() for first, last, _, _ in wanted]
        left = list(accumulate((term.most for term in reversed(wanted)), initial=0.0))[::-1]
        room = self._scratch.room
        candidates, scores, floor = np.zeros(0, np.intp), _NO_SCORES, 0.0
        for block, (start, end) in enumerate(pairwise(bounds.tolist())):
            here = [
                _Term(cut[block], cut[block + 1], weight, most)
                for (_, _, weight, most), cut in zip(wanted, cuts, strict=True)
            ]
            more, found, floor = self._in_block(start, here, left, k, floor, room[: end - start])
            if len(more):
                candidates, scores = np.concatenate([candidates, more + start]), np.concatenate([scores, found])
                floor, _ = _raised(floor, scores, k)
                kept = scores > floor / _MARGIN
                candidates, scores = candidates[kept], scores[kept]
        return candidates, scores

    def _in_block(
        self, start: int, wanted: list[_Term], left: list[float], k: int, floor: float, room: NDArray[np.float64]
    ) -> tuple[NDArray[np.intp], NDArray[np.float64], float]:
        """Documents of a block, counted from its `start`, that may be among the best, their scores, and the new floor.

        Terms are taken by the most that they can add. Once `k` documents have a score (`floor`) that the terms still to
        come cannot reach together, no further document can be among the best: those terms are looked up only in the
        documents that can still be (max-score pruning). `room` has a place for each document.
        """
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
        """A term's documents in the block that begins at `start`, counted from there, and what it adds to each.

        A part at a time: the arrays that it takes stay in the processor's cache, and stay small. The C library keeps
        the memory of large ones when they are gone, megabytes of it in each process.
        """
        for first in range(wanted.first, wanted.last, _PART):
            some = slice(first, min(first + _PART, wanted.last))
            documents = self._documents[some].astype(np.intp)
            documents -= start
            yield documents, self._added(wanted.weight, self._pairs[some])

    def _added(self, heavy: np.float32, pairs: NDArray[Any]) -> NDArray[np.float32]:
        """What a term of this weight adds to documents with these pairs."""
        if len(pairs) > len(self._divisors):
            every: NDArray[np.float32] = heavy - heavy / self._divisors
            return every.take(pairs)
        added: NDArray[np.float32] = heavy - heavy / self._divisors.take(pairs)
        return added

    def _looked_up(
        self, wanted: _Term, candidates: NDArray[np.intp], start: int, room: NDArray[np.float64]
    ) -> NDArray[Any]:
        """What a term adds to each candidate of the block that begins at `start`; writes over `room`."""
        first, last, heavy, _ = wanted
        if first == last:
            return np.zeros(len(candidates), np.float32)
        if len(candidates) * _SPARSE > last - first:
            room.fill(0.0)
            for documents, added in self._parts(wanted, start):
                room[documents] = added
            return room[candidates]
        having, numbers = self._documents[first:last], (candidates + start).astype(np.uint32)
        places = np.searchsorted(having[:-1], numbers)  # the last place for whatever is behind the others
        found: NDArray[np.float32] = self._added(heavy, self._pairs[first:last].take(places))
        found *= having.take(places) == numbers
        return found

    def _best(self, candidates: NDArray[np.intp], scores: NDArray[np.float32], k: int) -> list[Hit]:
        if len(candidates) > k:
            least = np.partition(scores, len(scores) - k)[-k]
            kept = scores >= least
            candidates, scores = candidates[kept], scores[kept]
        order = np.lexsort((self._ranks[candidates], -scores))[:k]
        return [Hit(int(candidates[place]), scores[place]) for place in order]


def _raised(
    floor: float, scores: NDArray[np.float64], k: int, others: NDArray[np.float64] = _NO_SCORES
) -> tuple[float, NDArray[np.float64]]:
    """The `k`-th best of the scores of different documents if it is above `floor`, and the best, `k` of them at most.

    `others` are the best scores of documents that came before.
    """
    best = scores[scores > floor]
    if len(others):
        best = np.concatenate([others, best])
    if len(best) < k:
        return floor, best
    best = np.partition(best, len(best) - k)[-k:]
    return float(best[0]), best
