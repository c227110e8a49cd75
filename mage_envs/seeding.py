"""The first values of many keyed streams at once, bit for bit those of NumPy's `SeedSequence` and `PCG64`.

Making one Generator costs some 15 us, nearly all of it overhead; a rollout needs one per hand and role. The two
algorithms are fixed by NumPy's stability promise: O'Neill's seed_seq_fe and PCG XSL-RR 128/64.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]
Longs = npt.NDArray[np.uint64]

POOL = 4
"""Words of a SeedSequence's pool."""
_XOR_A, _MULTIPLY_A = 0x43B0D7E5, 0x931E8875
_XOR_B, _MULTIPLY_B = 0x8B51F9DD, 0x58F38DED
_MIX_LEFT, _MIX_RIGHT = np.uint32(0xCA01F9DD), np.uint32(0x4973F715)
_HALF = np.uint32(16)
_PCG = 0x2360ED051FC65DA44385DF649FCCF645
_LOW, _SHIFT = np.uint64(0xFFFFFFFF), np.uint64(32)


def _constants(start: int, factor: int, count: int) -> Words:
    """The hash's running constant before each of `count` uses, and after the last."""
    return np.array([start * pow(factor, use, 1 << 32) % (1 << 32) for use in range(count + 1)], np.uint32)


class _Hash:
    """SeedSequence's hash, whose constant changes with every use."""

    def __init__(self, start: int, factor: int, uses: int) -> None:
        self._constants = _constants(start, factor, uses)
        self._used = 0

    def __call__(self, words: Words, uses: int) -> Words:
        """Hashes `words`, whose last axis has size `uses` (or 1: one word hashed so often)."""
        at = self._used
        self._used += uses
        hashed: Words = (words ^ self._constants[at : at + uses]) * self._constants[at + 1 : at + uses + 1]
        return hashed ^ (hashed >> _HALF)


def _mix(left: Words, right: Words) -> Words:
    mixed: Words = _MIX_LEFT * left - _MIX_RIGHT * right
    return mixed ^ (mixed >> _HALF)


def _pools(entropy: Words) -> Words:
    """The pools (n, 4) of n SeedSequences; `entropy` (n, words), at least 4 words each."""
    further = entropy.shape[1] - POOL
    hashed = _Hash(_XOR_A, _MULTIPLY_A, POOL * POOL + further * POOL)
    pool = hashed(entropy[:, :POOL], POOL)
    for source in range(POOL):
        others = [place for place in range(POOL) if place != source]
        pool[:, others] = _mix(pool[:, others], hashed(pool[:, source : source + 1], POOL - 1))
    for word in range(POOL, POOL + further):
        pool = _mix(pool, hashed(entropy[:, word : word + 1], POOL))
    return pool


def _state_words(pools: Words) -> Longs:
    """`generate_state(4, uint64)` of each pool: (n, 4)."""
    words = _Hash(_XOR_B, _MULTIPLY_B, 2 * POOL)(np.concatenate([pools, pools], axis=1), 2 * POOL).astype(np.uint64)
    return words[:, 0::2] | (words[:, 1::2] << _SHIFT)


class _Wide:
    """Unsigned numbers of 128 bits as two halves, added and multiplied modulo 2**128."""

    def __init__(self, high: Longs, low: Longs) -> None:
        self.high, self.low = high, low

    @classmethod
    def of(cls, numbers: Sequence[int]) -> _Wide:
        return cls(*(np.array([number >> shift & (1 << 64) - 1 for number in numbers], np.uint64) for shift in (64, 0)))

    def __add__(self, other: _Wide) -> _Wide:
        low = self.low + other.low
        return _Wide(self.high + other.high + (low < other.low), low)

    def __mul__(self, other: _Wide) -> _Wide:
        a, b, c, d = self.low >> _SHIFT, self.low & _LOW, other.low >> _SHIFT, other.low & _LOW
        middle = a * d + (b * d >> _SHIFT)
        carried = b * c + (middle & _LOW)
        high = a * c + (middle >> _SHIFT) + (carried >> _SHIFT)
        return _Wide(high + self.high * other.low + self.low * other.high, self.low * other.low)


def _uniforms(words: Longs, count: int) -> npt.NDArray[np.float64]:
    """The first `count` values of `Generator(PCG64)` for each row of `words` (n, 4): its state and its stream."""
    one = _Wide.of([1])
    start = _Wide(words[:, :1], words[:, 1:2])
    low = words[:, 3:4]
    increment = _Wide((words[:, 2:3] << np.uint64(1)) | (low >> np.uint64(63)), low << np.uint64(1)) + one
    powers = [pow(_PCG, step, 1 << 128) for step in range(count + 2)]
    # Value k shows the state after k + 2 steps: two belong to the seeding.
    states = (start + increment) * _Wide.of(powers[2:]) + increment * _Wide.of(
        [sum(powers[: step + 2]) % (1 << 128) for step in range(count)]
    )
    mixed, turn = states.high ^ states.low, states.high >> np.uint64(58)
    drawn = (mixed >> turn) | (mixed << (-turn & np.uint64(63)))
    return (drawn >> np.uint64(11)).astype(np.float64) * 2.0**-53


def first_values(seeds: Sequence[int], keys: Sequence[tuple[int, ...]], count: int) -> npt.NDArray[np.float64]:
    """(seeds, keys, count): `Generator(PCG64(SeedSequence(seed, spawn_key=key))).random(count)` for every pair.

    Seeds must lie in [0, 2**128), the parts of keys in [0, 2**32), and all keys have the same length.
    """
    parts = np.array([[seed >> 32 * word & 0xFFFFFFFF for word in range(POOL)] for seed in seeds], np.uint32)
    spawned = np.array(keys, np.uint32)
    entropy = np.concatenate([np.repeat(parts, len(keys), axis=0), np.tile(spawned, (len(seeds), 1))], axis=1)
    return _uniforms(_state_words(_pools(entropy)), count).reshape(len(seeds), len(keys), count)
