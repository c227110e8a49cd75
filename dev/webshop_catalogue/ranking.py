"""The search engine's ranking for a million searches of a catalogue: the same results in less time.

A shop answers few searches and uses little memory. The proof of a catalogue can use more: it sums the postings of rare
words in a scratch column. The results are those of `Index.search` in its arithmetic, and the tests compare them.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mage_envs.games.webshop.search.analysis import term, words
from mage_envs.games.webshop.search.bm25 import divisors, mean_length, weight
from mage_envs.games.webshop.search.index import MAX_QUERY, Index

_KEPT_TERMS = 4096
"""Number of cached terms of queries."""


class _Term(NamedTuple):
    """A term of a query."""

    number: int
    max_score: float
    """Maximum contribution to a score."""
    contributions: NDArray[np.float32]
    """Contribution to a document, indexed by the number of its pair."""


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
        self._term = lru_cache(_KEPT_TERMS)(self._build_term)

    def spread(self, word: str) -> int:
        """Return the number of documents with the word, or 0 if the word is not searched."""
        number = self._numbers[word]
        return 0 if number < 0 else self._starts[number + 1] - self._starts[number]

    def search(self, query: str, k: int) -> tuple[int, ...]:
        """Return the `k` best documents, best first. The time grows with the number of documents with a term."""
        scores, parts = self._scores, [np.zeros(0, np.intp)]
        for query_term in self._terms(query):
            documents, pairs = self._postings(query_term.number)
            known_scores = _take(scores, documents)
            parts.append(documents[known_scores == 0.0])
            scores[documents] = known_scores + _take(query_term.contributions, pairs)
        documents = np.concatenate(parts)
        total = _take(scores, documents)
        # Only the used entries are cleared, which is faster than a new array.
        scores[documents] = 0.0
        return self._rank(documents, total, k)

    def _rank(self, documents: NDArray[Any], scores: NDArray[np.float64], k: int) -> tuple[int, ...]:
        rounded = scores.astype(np.float32)
        if len(documents) > k:
            mask = rounded >= np.partition(rounded, len(rounded) - k)[-k]
            documents, rounded = documents[mask], rounded[mask]
        return tuple(documents[np.lexsort((self._ranks[documents], -rounded))[:k]].tolist())

    def _terms(self, query: str) -> list[_Term]:
        """Return the query's terms in the index, in the search engine's order."""
        # The order of a floating-point sum changes its rounding, and with it the order of nearly equal documents.
        counts = Counter(map(self._numbers.__getitem__, words(query[:MAX_QUERY])))
        terms = [self._term(number, count) for number, count in counts.items() if number >= 0]
        return sorted(terms, key=lambda query_term: (-query_term.max_score, query_term.number))

    def _build_term(self, number: int, count: int) -> _Term:
        term_weight = weight(count, self._starts[number + 1] - self._starts[number], self._with_terms)
        contributions = term_weight - term_weight / self._divisors
        return _Term(number, float(term_weight - term_weight / self._best[number]), contributions)

    def _postings(self, number: int) -> tuple[NDArray[np.intp], NDArray[Any]]:
        """Return the documents with a term, and the number of the pair of each."""
        span = slice(self._starts[number], self._starts[number + 1])
        return self._documents[span].astype(np.intp), self._pairs[span]


def _take(values: NDArray[Any], places: NDArray[Any]) -> NDArray[Any]:
    """Return the values at these places, which must all be valid."""
    # The mode `clip` skips NumPy's check of the indices, which takes longer than the lookup.
    return values.take(places, mode="clip")
