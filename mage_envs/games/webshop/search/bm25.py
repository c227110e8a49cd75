"""BM25 in the arithmetic of Lucene 8.11: 32-bit floats, its order of operations, document lengths in one byte.

The parameters are pyserini's defaults, k1 = 0.9 and b = 0.4. A term of weight w = count * idf adds
w - w / (1 + tf * f) to the score. The factor f depends on the document's length alone.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

K1 = np.float32(0.9)
B = np.float32(0.4)

_EXACT = 24
"""Number of terms below which a document's length is stored exactly."""


def _decode_length(code: int) -> int:
    """Return the length of a code by Lucene's SmallFloat.byte4ToInt: three bits of mantissa above `_EXACT`."""
    if code < _EXACT:
        return code
    exponent, mantissa = divmod(code - _EXACT, 8)
    return _EXACT + (mantissa if exponent == 0 else (mantissa + 8) << (exponent - 1))


LENGTHS: NDArray[np.int64] = np.array([_decode_length(code) for code in range(256)], np.int64)
"""Document length of each code, shape (256,)."""


def length_codes(lengths: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the code of each document length, which is rounded down to the next length with a code."""
    return (np.searchsorted(LENGTHS, lengths, "right") - 1).astype(np.uint8)


def divisors(counts: NDArray[np.uint32], codes: NDArray[Any], mean: np.float32) -> NDArray[np.float32]:
    """Return 1 + tf * f for postings.

    Args:
        counts: Count of the term in the document, shape (postings,).
        codes: Code of the document's length, shape (postings,).
        mean: Mean length of the documents.

    Returns:
        Divisors, shape (postings,).
    """
    # Every operand is float32, because a float64 would change the rounding, and with it the order of equal scores.
    unit = np.float32(1)
    factors = unit / (K1 * ((unit - B) + B * LENGTHS.astype(np.float32) / mean))
    posting_divisors: NDArray[np.float32] = unit + counts.astype(np.float32) * factors[codes]
    return posting_divisors


def mean_length(terms: int, documents: int) -> np.float32:
    """Return Lucene's average length, over the documents with at least one term."""
    return np.float32(terms / documents) if documents else np.float32(1)


def weight(count: int, documents_with: int, documents: int) -> np.float32:
    """Return the weight of a term, the upper bound of its contribution to a score.

    Args:
        count: Count of the term in the query.
        documents_with: Number of documents with the term.
        documents: Number of documents with at least one term.
    """
    idf = np.float32(math.log(1 + (documents - documents_with + 0.5) / (documents_with + 0.5)))
    return np.float32(count) * idf
