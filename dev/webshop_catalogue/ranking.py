"""The search engine's ranking for a million searches of a catalogue: the same results in less time.

A shop answers few searches and uses little memory. The generator of a catalogue can use more. `search` stores a row
over all documents for each term, so that a contribution is read, not searched for. `search_rare` sums the postings of
rare words in a scratch column. Both return the results of `Index.search` in its arithmetic, and the tests compare them.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mage_envs.games.webshop.search.analysis import term, words
from mage_envs.games.webshop.search.bm25 import divisors, mean_length, weight
from mage_envs.games.webshop.search.index import MAX_QUERY, Index

_MARGIN = 1 + 1e-6
"""Tolerance of pruning to rounding, as in the search engine."""
_NONE = np.zeros(1, np.float32)
_KEPT_TERMS = 4096
"""Number of cached terms of queries."""
_KEPT_ROWS = 256 * 2**20
"""Maximum size of the cached rows in bytes."""
_FIRST = 2
"""Number of terms with the largest contributions whose documents are scored first."""


class _Wanted(NamedTuple):
    """A term of a query."""

    number: int
    most: float
    """Maximum contribution to a score."""
    added: NDArray[np.float32]
    """Contribution to a document, indexed by the entry in the term's row (see `_made_row`)."""


class _Numbers(dict[str, int]):
    """The number of each word's term, or -1 if no document has the term."""

    def __init__(self, terms: dict[str, int]) -> None:
        super().__init__()
        self._terms = terms

    def __missing__(self, word: str) -> int:
        number = self[word] = self._terms.get(term(word) or "", -1)
        return number


class Ranking:
    """Searcher of an index. Threads must not share it, because it has scratch memory."""

    def __init__(self, index: Index) -> None:
        arrays = index.arrays
        self._documents, self._pairs, self._ranks = arrays.documents, arrays.pairs, arrays.ranks
        self._starts: list[int] = arrays.starts.tolist()
        self._best = arrays.best
        text, ends = arrays.vocabulary.tobytes(), arrays.vocabulary_starts.tolist()
        self._numbers = _Numbers({text[ends[at] : ends[at + 1]].decode("utf-8"): at for at in range(len(ends) - 1)})
        self._with_terms, total = arrays.totals.tolist()
        table = arrays.pair_table
        self._divisors = divisors(table[:, 0], table[:, 1], mean_length(total, self._with_terms))
        self._scores = np.zeros(len(arrays.ranks))
        self._row_type = np.uint16 if len(table) < 1 << 16 else np.uint32
        rows = _KEPT_ROWS // max(1, len(arrays.ranks) * np.dtype(self._row_type).itemsize)
        self._row = lru_cache(max(_FIRST, rows))(self._made_row)
        self._wanted = lru_cache(_KEPT_TERMS)(self._made_wanted)

    def spread(self, word: str) -> int:
        """Return the number of documents with the word, or 0 if the word is not searched."""
        number = self._numbers[word]
        return 0 if number < 0 else self._starts[number + 1] - self._starts[number]

    def search_rare(self, query: str, k: int) -> tuple[int, ...]:
        """Return the `k` best documents, best first. The time grows with the number of documents with a term."""
        scores, found = self._scores, [np.zeros(0, np.intp)]
        for one in self._terms(query):
            documents, pairs = self._postings(one.number)
            known = _taken(scores, documents)
            found.append(documents[known == 0.0])
            scores[documents] = known + _taken(one.added[1:], pairs)
        documents = np.concatenate(found)
        total = _taken(scores, documents)
        # Only the used entries are cleared, which is faster than a new array.
        scores[documents] = 0.0
        return self._ranked(documents, total, k)

    def search(self, query: str, k: int) -> tuple[int, ...]:
        """Return the `k` best documents, best first."""
        # The documents with one of the first terms are scored completely. Their k-th best score is a threshold. If the
        # terms from `needed` on cannot reach it together, a further document must have a term before `needed`.
        wanted = self._terms(query)
        rows = [(self._row(one.number), one.added) for one in wanted]
        left = list(accumulate((one.most for one in reversed(wanted)), initial=0.0))[::-1]
        marks = np.zeros(len(self._ranks), bool)
        documents = self._marked(wanted[:_FIRST], marks)
        scores = np.zeros(len(documents))
        for row, added in rows:
            scores += _taken(added, _taken(row, documents))
        floor = float(np.partition(scores, len(scores) - k)[-k]) / _MARGIN if len(scores) >= k else 0.0
        needed = next(count for count in range(len(left)) if left[count] * _MARGIN < floor or count == len(wanted))
        more = self._marked(wanted[_FIRST:needed], marks)
        found = np.zeros(len(more))
        for position, (row, added) in enumerate(rows[_FIRST:], _FIRST):
            found += _taken(added, _taken(row, more))
            kept = found > floor - left[position + 1] * _MARGIN
            more, found = more[kept], found[kept]
        return self._ranked(np.concatenate([documents, more]), np.concatenate([scores, found]), k)

    def _ranked(self, documents: NDArray[Any], scores: NDArray[np.float64], k: int) -> tuple[int, ...]:
        rounded = scores.astype(np.float32)
        if len(documents) > k:
            kept = rounded >= np.partition(rounded, len(rounded) - k)[-k]
            documents, rounded = documents[kept], rounded[kept]
        return tuple(documents[np.lexsort((self._ranks[documents], -rounded))[:k]].tolist())

    def _terms(self, query: str) -> list[_Wanted]:
        """Return the query's terms in the index, in the search engine's order."""
        # The order of a floating-point sum changes its rounding, and with it the order of nearly equal documents.
        counts = Counter(map(self._numbers.__getitem__, words(query[:MAX_QUERY])))
        found = [self._wanted(number, count) for number, count in counts.items() if number >= 0]
        return sorted(found, key=lambda one: (-one.most, one.number))

    def _made_wanted(self, number: int, count: int) -> _Wanted:
        # The entry 0 of a row means that the document does not have the term, so its contribution is 0.
        heavy = weight(count, self._starts[number + 1] - self._starts[number], self._with_terms)
        added = np.concatenate([_NONE, heavy - heavy / self._divisors])
        return _Wanted(number, float(heavy - heavy / self._best[number]), added)

    def _postings(self, number: int) -> tuple[NDArray[np.intp], NDArray[Any]]:
        """Return the documents with a term, and the number of the pair of each."""
        some = slice(self._starts[number], self._starts[number + 1])
        return self._documents[some].astype(np.intp), self._pairs[some]

    def _made_row(self, number: int) -> NDArray[Any]:
        """Return the row of a term: 1 + the number of the pair for each document with the term, else 0."""
        documents, pairs = self._postings(number)
        row = np.zeros(len(self._ranks), self._row_type)
        row[documents] = pairs.astype(self._row_type) + 1
        return row

    def _marked(self, wanted: list[_Wanted], marks: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Return the documents with one of the terms and without a mark, and mark them."""
        found = [np.zeros(0, np.intp)]
        for one in wanted:
            documents = self._postings(one.number)[0]
            found.append(documents[~_taken(marks, documents)])
            marks[documents] = True
        return np.concatenate(found)


def _taken(values: NDArray[Any], places: NDArray[Any]) -> NDArray[Any]:
    """Return the values at these places, which must all be valid."""
    # The mode `clip` skips NumPy's check of the indices, which takes longer than the lookup.
    return values.take(places, mode="clip")
