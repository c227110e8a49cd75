"""Random numbers of the shop: draws that are functions of a key, and the shuffle behind published goal numbers."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from hashlib import blake2b

import numpy as np

UPSTREAM_SEED = 233
"""Seed of the original's shuffle of its goals."""


def uniform(*key: object) -> float:
    """Return a number in [0, 1) that depends on the key alone, in every process and on every machine."""
    # The separator keeps keys such as ("a", "bc") and ("ab", "c") apart.
    digest = blake2b("\x1f".join(map(str, key)).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    # A double has 53 bits of mantissa, so the lower 11 of the 64 bits are dropped.
    return (int.from_bytes(digest, "big") >> 11) / (1 << 53)


def shuffled(count: int, seed: int = UPSTREAM_SEED) -> array[int]:
    """Return `range(count)` in the order of CPython's `random.seed(seed); random.shuffle(...)`."""
    # An array holds four bytes per goal. A list of CPython needs several times as much for millions of goals.
    order = array("I", range(count))
    words = _words(seed)
    for last in range(count - 1, 0, -1):
        shift = 32 - (last + 1).bit_length()
        # CPython draws as many bits as `last + 1` has, and draws again if the number is too large.
        chosen = next(words) >> shift
        while chosen > last:
            chosen = next(words) >> shift
        order[last], order[chosen] = order[chosen], order[last]
    return order


def _words(seed: int) -> Iterator[int]:
    """Yield the 32-bit words of CPython's Mersenne twister after `random.seed(seed)`, for 0 <= seed < 2**32."""
    # CPython seeds the twister with an array. NumPy does the same if it receives a list.
    twister = np.random.RandomState([seed])
    while True:
        yield from twister.randint(0, 1 << 32, 4096, np.uint32).tolist()
