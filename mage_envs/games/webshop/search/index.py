"""The search engine: the best documents for a query, in the order and with the scores of Lucene's BM25."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mage_envs.games.webshop.search.analysis import terms
from mage_envs.games.webshop.search.arrays import IndexArrays, open_arrays, write_arrays
from mage_envs.games.webshop.search.bm25 import divisors, mean_length, weight
from mage_envs.games.webshop.search.build import build_arrays

MAX_QUERY = 32_768
"""Characters of a query that are read; what follows them is not, so that no query takes long."""
_MARGIN = 1 + 1e-6
"""Keeps pruning clear of rounding: what may round to the same 32-bit float as the score to beat is not dropped."""
_SPARSE = 16
"""Documents are looked up in a list of postings one by one if the list is this many times as long."""
_BLOCK = 1 << 17
"""Documents that are scored together."""
_KEPT_TERMS = 4096
"""Terms of recent queries whose place in the vocabulary is remembered."""


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


class Index:
    """Documents that can be searched. It is read only: threads and processes may share it.

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
        )  # fmt: skip
        self._vocabulary = arrays.vocabulary.data
        self._vocabulary_starts = arrays.vocabulary_starts.data
        self._number = lru_cache(_KEPT_TERMS)(self._find)

    @classmethod
    def build(cls, documents: Iterable[tuple[str, str]]) -> Index:
        """The index of documents (id, text), in memory; `build.write_index` is for what does not fit there."""
        return cls(build_arrays(documents))

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Index:
        """The index in a folder, mapped from its files."""
        return cls(open_arrays(Path(folder)))

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Writes the index into a folder, which is made if it is not there."""
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        write_arrays(self.arrays, target)

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
        for name, count in Counter(terms(query[:MAX_QUERY])).items():
            number = self._number(name.encode("utf-8"))
            if number is not None:
                first, last = int(self.arrays.starts[number]), int(self.arrays.starts[number + 1])
                heavy = weight(count, last - first, self._with_terms)
                found.append(_Term(first, last, heavy, float(heavy - heavy / self.arrays.best[number])))
        return sorted(found, key=lambda wanted: (-wanted.most, wanted.first))

    def _find(self, name: bytes) -> int | None:
        place = bisect_left(range(len(self._vocabulary_starts) - 1), name, key=self._name)
        return place if place < len(self._vocabulary_starts) - 1 and self._name(place) == name else None

    def _name(self, number: int) -> bytes:
        starts = self._vocabulary_starts
        return bytes(self._vocabulary[starts[number] : starts[number + 1]])

    # -- scores ----------------------------------------------------------------------------------------------------

    def _added(self, heavy: np.float32, pairs: NDArray[Any]) -> NDArray[np.float32]:
        """What a term of this weight adds to documents with these pairs."""
        if len(pairs) > len(self._divisors):
            every: NDArray[np.float32] = heavy - heavy / self._divisors
            return every.take(pairs)
        added: NDArray[np.float32] = heavy - heavy / self._divisors.take(pairs)
        return added

    def _candidates(self, wanted: list[_Term], k: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Documents that hold the `k` best among them, and their scores, summed in 64 bits as Lucene sums them.

        A block of documents after the other, so that scores fit in a processor's cache and take no memory to speak of.
        """
        bounds = np.arange(0, self._size + _BLOCK, _BLOCK).astype(np.uint32)
        cuts = [(first + np.searchsorted(self._documents[first:last], bounds)).tolist() for first, last, _, _ in wanted]
        left = list(accumulate((term.most for term in reversed(wanted)), initial=0.0))[::-1]
        candidates, scores, floor = np.zeros(0, np.intp), np.zeros(0), 0.0
        for block in range(len(bounds) - 1):
            here = [
                term._replace(first=cut[block], last=cut[block + 1]) for term, cut in zip(wanted, cuts, strict=True)
            ]
            more, found, floor = self._in_block(block * _BLOCK, here, left, k, floor)
            candidates, scores = np.concatenate([candidates, more + block * _BLOCK]), np.concatenate([scores, found])
            floor = _raised(floor, scores, k)
            kept = scores > floor / _MARGIN
            candidates, scores = candidates[kept], scores[kept]
        return candidates, scores

    def _in_block(
        self, start: int, wanted: list[_Term], left: list[float], k: int, floor: float
    ) -> tuple[NDArray[np.intp], NDArray[np.float64], float]:
        """Documents of a block, counted from its `start`, that may be among the best, their scores, and the new floor.

        Terms are taken by the most that they can add. Once `k` documents have a score (`floor`) that the terms still to
        come cannot reach together, no further document can be among the best: those terms are looked up only in the
        documents that can still be (max-score pruning).
        """
        scores = np.zeros(min(_BLOCK, self._size - start))
        taken = 0
        while taken < len(wanted) and left[taken] * _MARGIN >= floor:
            first, last, heavy, _ = wanted[taken]
            documents = self._documents[first:last] - np.uint32(start)
            scores[documents] += self._added(heavy, self._pairs[first:last])
            taken += 1
            if taken < len(wanted) and last - first >= k:
                floor = _raised(floor, scores[documents], k)
        candidates = np.flatnonzero(scores > max(0.0, floor - left[taken]) / _MARGIN)
        found = scores[candidates]
        for position in range(taken, len(wanted)):
            if not len(candidates):
                break
            found += self._looked_up(wanted[position], candidates, start)
            floor = _raised(floor, found, k)
            kept = found > (floor - left[position + 1]) / _MARGIN
            candidates, found = candidates[kept], found[kept]
        return candidates, found, floor

    def _looked_up(self, wanted: _Term, candidates: NDArray[np.intp], start: int) -> NDArray[np.float64]:
        """What a term adds to each candidate of the block that begins at `start`."""
        first, last, heavy, _ = wanted
        added = np.zeros(len(candidates))
        if first == last:
            return added
        documents = self._documents[first:last]
        if len(candidates) * _SPARSE > last - first:
            every = np.zeros(min(_BLOCK, self._size - start))
            every[documents - np.uint32(start)] = self._added(heavy, self._pairs[first:last])
            return every[candidates]
        places = np.searchsorted(documents, (candidates + start).astype(np.uint32))
        places[places == len(documents)] = 0
        present = documents[places] == candidates + start
        added[present] = self._added(heavy, self._pairs[first:last][places[present]])
        return added

    def _best(self, candidates: NDArray[np.intp], scores: NDArray[np.float32], k: int) -> list[Hit]:
        if len(candidates) > k:
            least = np.partition(scores, len(scores) - k)[-k]
            kept = scores >= least
            candidates, scores = candidates[kept], scores[kept]
        order = np.lexsort((self._ranks[candidates], -scores))[:k]
        return [Hit(int(candidates[place]), scores[place]) for place in order]


def _raised(floor: float, scores: NDArray[np.float64], k: int) -> float:
    """The `k`-th of these scores if it is above `floor`."""
    above = scores[scores > floor]
    return float(np.partition(above, len(above) - k)[-k]) if len(above) >= k else floor
