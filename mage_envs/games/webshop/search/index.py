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

    start: int
    stop: int
    weight: np.float32
    max_score: float


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
        self._term = lru_cache(_KEPT_WORDS)(self._build_term)

    @classmethod
    def open(cls, folder: str | os.PathLike[str], verify: Callable[[Path], Path] = Path) -> Index:
        """Return the index in a folder, mapped from its files. `verify` checks a file before its first use."""
        return cls(open_arrays(Path(folder), verify))

    def __len__(self) -> int:
        return self._size

    def search(self, query: str, k: int = 50) -> tuple[int, ...]:
        """Return the numbers of the `k` best documents, best first."""
        return tuple(self._rank(query, k)[0].tolist())

    def hits(self, query: str, k: int = 50) -> list[Hit]:
        """Return the `k` best documents with their scores, best first. Raises ValueError if `k` is less than 1."""
        documents, scores = self._rank(query, k)
        return list(map(Hit, documents.tolist(), scores))

    def _rank(self, query: str, k: int) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}.")
        candidates, scores = self._candidates(self._terms(query), k)
        return self._best(candidates, scores.astype(np.float32), k)

    # -- the terms of a query --------------------------------------------------------------------------------------

    def _terms(self, query: str) -> list[_Term]:
        """Return the query's terms in the index, by descending maximum contribution."""
        counts = Counter(map(self._number, words(query[:MAX_QUERY])))
        query_terms = [self._term(number, count) for number, count in counts.items() if number is not None]
        return sorted(query_terms, key=lambda query_term: (-query_term.max_score, query_term.start))

    def _build_term(self, number: int, count: int) -> _Term:
        """Return the term of that number for a query that has it `count` times."""
        start, stop = self.arrays.starts[number : number + 2].tolist()
        term_weight = weight(count, stop - start, self._with_terms)
        return _Term(start, stop, term_weight, float(term_weight - term_weight / self.arrays.best[number]))

    def _find(self, word: str) -> int | None:
        """Return the number of a word's term, or None if it is a stop word or not in the index."""
        word_term = term(word)
        if word_term is None:
            return None
        name = word_term.encode("utf-8")
        number = bisect_left(range(len(self._vocabulary_starts) - 1), name, key=self._name)
        return number if number < len(self._vocabulary_starts) - 1 and self._name(number) == name else None

    def _name(self, number: int) -> bytes:
        starts = self._vocabulary_starts
        return bytes(self._vocabulary[starts[number] : starts[number + 1]])

    # -- scores ----------------------------------------------------------------------------------------------------

    def _candidates(self, query_terms: list[_Term], k: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return candidates that include the `k` best documents, and their scores, in 64 bits as in Lucene."""
        # Documents are processed in blocks, so that the scores of a block fit in the processor's cache (one megabyte).
        bounds = [*range(0, self._size, _BLOCK), self._size]
        cuts: list[list[int]] = []
        # The only block of a small index has all postings of a term, so they need no cuts.
        if len(bounds) > 2:
            limits = np.array(bounds, np.uint32)
            cuts = [
                (begin + np.searchsorted(self._documents[begin:stop], limits)).tolist()
                for begin, stop, _, _ in query_terms
            ]
        # remaining_bounds[i] bounds the total contribution of the terms from i on.
        remaining_bounds = list(
            accumulate((query_term.max_score for query_term in reversed(query_terms)), initial=0.0)
        )[::-1]
        room = self._scratch.room
        candidates, scores, floor = np.zeros(0, np.intp), _NO_SCORES, 0.0
        for block, (start, end) in enumerate(pairwise(bounds)):
            block_terms = query_terms
            if cuts:
                block_terms = [
                    _Term(cut[block], cut[block + 1], term_weight, max_score)
                    for (_, _, term_weight, max_score), cut in zip(query_terms, cuts, strict=True)
                ]
            block_candidates, block_scores, floor = self._score_block(
                start, block_terms, remaining_bounds, k, floor, room[: end - start]
            )
            if len(block_candidates):
                candidates, scores = (
                    np.concatenate([candidates, block_candidates + start]),
                    np.concatenate([scores, block_scores]),
                )
            # After the last block, the caller drops all but the best.
            if len(block_candidates) and end < self._size:
                floor, _ = _raise_floor(floor, scores, k)
                mask = scores > floor / _MARGIN
                candidates, scores = candidates[mask], scores[mask]
        return candidates, scores

    def _score_block(
        self,
        start: int,
        query_terms: list[_Term],
        remaining_bounds: list[float],
        k: int,
        floor: float,
        room: NDArray[np.float64],
    ) -> tuple[NDArray[np.intp], NDArray[np.float64], float]:
        """Return the candidates of a block, their scores, and the new threshold `floor`.

        Documents are counted from the block's `start`. `room` has one entry per document of the block.
        """
        # Max-score pruning: terms come by descending maximum contribution. If `k` documents have a score (`floor`) that
        # the remaining terms cannot reach together, a document without an earlier term cannot be among the best. Then
        # the remaining terms are looked up only in the candidates.
        room.fill(0.0)
        term_index = 0
        while term_index < len(query_terms) and remaining_bounds[term_index] * _MARGIN >= floor:
            best = _NO_SCORES
            for documents, contributions in self._parts(query_terms[term_index], start):
                sums = room[documents]
                sums += contributions
                room[documents] = sums
                floor, best = _raise_floor(floor, sums, k, best)
            term_index += 1
        candidates = np.flatnonzero(room > max(0.0, floor - remaining_bounds[term_index]) / _MARGIN)
        scores = room[candidates]
        for position in range(term_index, len(query_terms)):
            if not len(candidates):
                break
            scores += self._look_up(query_terms[position], candidates, start, room)
            floor, _ = _raise_floor(floor, scores, k)
            mask = scores > (floor - remaining_bounds[position + 1]) / _MARGIN
            candidates, scores = candidates[mask], scores[mask]
        return candidates, scores, floor

    def _parts(self, query_term: _Term, start: int) -> Iterator[tuple[NDArray[np.intp], NDArray[np.float32]]]:
        """Yield (documents, contributions) of a term in the block at `start`; documents are counted from there."""
        # In parts, so that the temporary arrays stay in the processor's cache. The C library would also keep the memory
        # of large arrays after their release, megabytes of it in each process.
        for begin in range(query_term.start, query_term.stop, _PART):
            part = slice(begin, min(begin + _PART, query_term.stop))
            documents = self._documents[part].astype(np.intp)
            documents -= start
            yield documents, self._contributions(query_term.weight, self._pairs[part])

    def _contributions(self, term_weight: np.float32, pairs: NDArray[Any]) -> NDArray[np.float32]:
        """Return the contribution of a term of this weight to documents with these pairs."""
        # With more postings than distinct pairs it is faster to evaluate the formula once per pair.
        if len(pairs) > len(self._divisors):
            pair_contributions: NDArray[np.float32] = term_weight - term_weight / self._divisors
            return pair_contributions.take(pairs)
        contributions: NDArray[np.float32] = term_weight - term_weight / self._divisors.take(pairs)
        return contributions

    def _look_up(
        self, query_term: _Term, candidates: NDArray[np.intp], start: int, room: NDArray[np.float64]
    ) -> NDArray[Any]:
        """Return the contribution of a term to each candidate of the block at `start`. Overwrites `room`."""
        begin, stop, term_weight, _ = query_term
        if begin == stop:
            return np.zeros(len(candidates), np.float32)
        if len(candidates) * _SPARSE > stop - begin:
            room.fill(0.0)
            for documents, part_contributions in self._parts(query_term, start):
                room[documents] = part_contributions
            return room[candidates]
        term_documents, numbers = self._documents[begin:stop], (candidates + start).astype(np.uint32)
        # Without the last posting every position is valid: a number behind all others has that of the last one.
        positions = np.searchsorted(term_documents[:-1], numbers)
        contributions: NDArray[np.float32] = self._contributions(term_weight, self._pairs[begin:stop].take(positions))
        contributions *= term_documents.take(positions) == numbers
        return contributions

    def _best(
        self, candidates: NDArray[np.intp], scores: NDArray[np.float32], k: int
    ) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        """Return the `k` best documents with their scores, best first."""
        # A partition drops most candidates in linear time. Ties with the k-th score stay, since ids decide them.
        if len(candidates) > k:
            cutoff = np.partition(scores, len(scores) - k)[-k]
            mask = scores >= cutoff
            candidates, scores = candidates[mask], scores[mask]
        order = np.lexsort((self._ranks[candidates], -scores))[:k]
        return candidates[order], scores[order]


def _raise_floor(
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
