"""Random numbers of the shop: draws that are functions of a key, and the shuffle behind published goal numbers."""

from __future__ import annotations

from array import array
from hashlib import blake2b
from random import Random

UPSTREAM_SEED = 233
"""Seed of the original's shuffle of its goals."""


def uniform(*key: object) -> float:
    """Return a number in [0, 1) that depends on the key alone, in every process and on every machine."""
    # The separator keeps keys such as ("a", "bc") and ("ab", "c") apart.
    digest = blake2b("\x1f".join(map(str, key)).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    # A double has 53 bits of mantissa, so the lower 11 of the 64 bits are dropped.
    return (int.from_bytes(digest, "big") >> 11) / (1 << 53)


def shuffle_range(count: int, seed: int = UPSTREAM_SEED) -> array[int]:
    """Return `range(count)` in the order of CPython's `random.seed(seed); random.shuffle(...)`."""
    # An array holds four bytes per goal. A list of CPython needs several times as much for millions of goals.
    order = array("I", range(count))
    Random(seed).shuffle(order)
    return order
