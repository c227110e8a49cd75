"""The shop's own chance: draws that are functions of a key, and the one shuffle that published goal numbers rest on."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from hashlib import blake2b

import numpy as np

UPSTREAM_SEED = 233
"""Seed with which the original shuffles its goals."""
_WORDS = 624


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
    bits = np.random.MT19937()
    bits.state = {"bit_generator": "MT19937", "state": {"key": _key(seed), "pos": _WORDS}}
    while True:
        yield from bits.random_raw(4096).tolist()


def _key(seed: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """The twister's first state: `init_by_array([seed])` of Matsumoto and Nishimura's reference code."""
    full = 0xFFFFFFFF
    key = [19650218]
    for index in range(1, _WORDS):
        key.append((1812433253 * (key[-1] ^ key[-1] >> 30) + index) & full)
    at = 1
    for _ in range(_WORDS):
        key[at] = ((key[at] ^ (key[at - 1] ^ key[at - 1] >> 30) * 1664525) + seed) & full
        at += 1
        if at == _WORDS:
            key[0], at = key[-1], 1
    for _ in range(_WORDS - 1):
        key[at] = ((key[at] ^ (key[at - 1] ^ key[at - 1] >> 30) * 1566083941) - at) & full
        at += 1
        if at == _WORDS:
            key[0], at = key[-1], 1
    key[0] = 1 << 31
    return np.array(key, np.uint32)
