"""The shop's own chance: draws that are functions of a key, and the one shuffle that published goal numbers rest on."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from hashlib import blake2b

import numpy as np

UPSTREAM_SEED = 233
"""Seed with which the original shuffles its goals."""


def uniform(*key: object) -> float:
    """A number in [0, 1) that depends on the key alone: the same in every process and on every machine."""
    digest = blake2b("\x1f".join(map(str, key)).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / (1 << 53)


def shuffled(count: int, seed: int = UPSTREAM_SEED) -> array[int]:
    """`range(count)` in the order that CPython's `random.seed(seed); random.shuffle(...)` gives it."""
    order = array("I", range(count))
    words = _words(seed)
    for last in range(count - 1, 0, -1):
        shift = 32 - (last + 1).bit_length()
        chosen = next(words) >> shift
        while chosen > last:
            chosen = next(words) >> shift
        order[last], order[chosen] = order[chosen], order[last]
    return order


def _words(seed: int) -> Iterator[int]:
    """The 32-bit words of the Mersenne twister that CPython's `random.seed(seed)` starts, for 0 <= seed < 2**32."""
    twister = np.random.RandomState([seed])  # CPython seeds it with an array, and so does NumPy where it is given one
    while True:
        yield from twister.randint(0, 1 << 32, 4096, np.uint32).tolist()
