"""BM25 in Lucene 8.11's arithmetic: 32-bit floats in its order of operations, document lengths kept in one byte.

With k1 = 0.9 and b = 0.4, pyserini's defaults. A term of weight w = count * idf adds w - w / (1 + tf * f), where f
depends on the document's length alone.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

K1 = np.float32(0.9)
B = np.float32(0.4)

_EXACT = 24
"""Lengths below this are kept exactly."""


def _decoded(code: int) -> int:
    """Lucene's SmallFloat.byte4ToInt: three bits of mantissa above `_EXACT`."""
    if code < _EXACT:
        return code
    exponent, mantissa = divmod(code - _EXACT, 8)
    return _EXACT + (mantissa if exponent == 0 else (mantissa + 8) << (exponent - 1))


LENGTHS: NDArray[np.int64] = np.array([_decoded(code) for code in range(256)], np.int64)
"""The document length that each byte stands for."""


def length_codes(lengths: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The byte for each document length: that of the longest known length that is not above it."""
    return (np.searchsorted(LENGTHS, lengths, "right") - 1).astype(np.uint8)


def divisors(counts: NDArray[np.uint32], codes: NDArray[Any], mean: np.float32) -> NDArray[np.float32]:
    """1 + tf * f for term counts in documents whose lengths have these codes."""
    one = np.float32(1)
    factors = one / (K1 * ((one - B) + B * LENGTHS.astype(np.float32) / mean))
    found: NDArray[np.float32] = one + counts.astype(np.float32) * factors[codes]
    return found


def mean_length(terms: int, documents: int) -> np.float32:
    """Lucene's average length, over the documents that have a term at all."""
    return np.float32(terms / documents) if documents else np.float32(1)


def weight(count: int, documents_with: int, documents: int) -> np.float32:
    """What a term that a query has `count` times can add to a score at most."""
    idf = np.float32(math.log(1 + (documents - documents_with + 0.5) / (documents_with + 0.5)))
    return np.float32(count) * idf
