"""Keyed random streams for the whole suite, counter-based: splitmix64 (Steele, Lea and Flood, 2014).

A stream is a function of its key (seed, role, episode, hand), never of earlier draws. Number i of a stream is
`mix(key + (i + 1) * GOLDEN)`. Plain Python computes single draws, NumPy computes batches, and both agree to the bit.
Code that needs more than uniform numbers uses a NumPy Generator on a Philox with the same key.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt
from numpy.random.bit_generator import ISpawnableSeedSequence

UInt64s = npt.NDArray[np.uint64]

GAME = 0
"""Role of the game's chance: deals, rooms, goals."""
POOL = 1
"""Role of the draws that open a meta-episode: hand 0 the first seat, hand 1 the opponent."""
SEATS = 16
"""Role of the policy in seat 0. The role of seat s is `SEATS + s`."""

SEED_BITS = 53
"""Bits of the seeds that the suite makes. Every JSON reader keeps numbers below 2**53."""
_MASK = 0xFFFFFFFFFFFFFFFF
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_APART = 0xD1342543DE82EF95
"""Odd distance between the streams of one seed, so large that no stream runs into another."""
_AFTER = 0xDA942042E4DD58B5
"""Odd distance from the streams of one seed to the streams after them (`Streams.advance`)."""
_UNIT = 2.0**-53
"""Distance between two neighbouring uniform numbers."""


def mix(x: int) -> int:
    """Return the finaliser of splitmix64 for a number below 2**64. Each input bit flips half of the output bits."""
    x = (x ^ (x >> 30)) * _FIRST & _MASK
    x = (x ^ (x >> 27)) * _SECOND & _MASK
    return x ^ (x >> 31)


def fold(*parts: int) -> int:
    """Return one number below 2**64 for a sequence of whole numbers of any size."""
    state = 0
    for part in parts:
        # A part is folded 64 bits at a time. The shift ends at 0 for positive parts and at -1 for negative ones.
        while True:
            state = mix((state + _GOLDEN + part) & _MASK)
            part >>= 64
            if part in (0, -1):
                break
    return state


def seed_of(*parts: int) -> int:
    """Return a seed below 2**53 for a sequence of whole numbers."""
    return fold(*parts) >> (64 - SEED_BITS)


def uniform(key: int, index: int = 0) -> float:
    """Return number `index` (from 0) of the stream of a key below 2**64, in [0, 1)."""
    # The mantissa of a float has 53 bits, so the lowest 11 of 64 are dropped.
    return (mix(key + (index + 1) * _GOLDEN & _MASK) >> 11) * _UNIT


class Stream:
    """Uniform numbers of one key."""

    def __init__(self, key: int) -> None:
        self.key = key
        self._drawn = 0

    def random(self) -> float:
        """Return the next number in [0, 1)."""
        self._drawn += 1
        return uniform(self.key, self._drawn - 1)

    def generator(self) -> np.random.Generator:
        """Return a new NumPy Generator of this key, for draws other than uniform numbers. It takes 5 us."""
        # Philox accepts any ISeedSequence, but NumPy's stub requires a SeedSequence.
        key = cast(np.random.SeedSequence, _Key(mix(self.key)))
        return np.random.Generator(np.random.Philox(key))


class _Key(ISpawnableSeedSequence):
    """A seed sequence that gives a Philox the same state as `Philox(key=...)`.

    `Philox(key=...)` itself reads entropy from the operating system, which takes four times as long. It would also
    spawn from that entropy, with other generators in each process.
    """

    def __init__(self, key: int) -> None:
        self._key = key
        self._spawned = 0

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> npt.NDArray[Any]:
        """Return the key in the form that Philox needs. For other bit generators, NumPy expands the key."""
        if n_words != 2 or dtype is not np.uint64:
            return np.random.SeedSequence(self._key).generate_state(n_words, dtype)
        words = np.zeros(2, np.uint64)
        words[0] = self._key
        return words

    def spawn(self, n_children: int) -> list[_Key]:
        """Return keys of further generators. No call returns the same keys again."""
        first_number, self._spawned = self._spawned, self._spawned + n_children
        return [_Key(fold(self._key, number)) for number in range(first_number, self._spawned)]


class Streams:
    """All streams of one seed (or of several whole numbers)."""

    def __init__(self, *seed: int) -> None:
        self._base = fold(*seed)

    def at(self, role: int, episode: int = 0, hand: int = 0) -> Stream:
        """Return the stream of a role in a hand.

        Args:
            role: Role below 256.
            episode: Index of the episode, below 2**24.
            hand: Index of the hand in the episode.
        """
        return Stream(self._key(role, episode, hand))

    def number(self, role: int, episode: int = 0, hand: int = 0, index: int = 0) -> float:
        """Return one number in [0, 1) of a stream, as `at(role, episode, hand)` would draw it.

        Args:
            role: Role below 256.
            episode: Index of the episode, below 2**24.
            hand: Index of the hand in the episode.
            index: Position in the stream, from 0.
        """
        # `uniform(self._key(role, episode, hand), index)` without its two calls, because most moves draw a number.
        key = self._base + (role + (episode << 8) + (hand << 32)) * _APART
        return (mix(key + (index + 1) * _GOLDEN & _MASK) >> 11) * _UNIT

    def _key(self, role: int, episode: int, hand: int) -> int:
        # One integer holds all three: 8 bits for the role, 24 for the episode, the rest for the hand.
        return self._base + (role + (episode << 8) + (hand << 32)) * _APART & _MASK

    def advance(self) -> None:
        """Move to the following streams, which a reset without a seed uses."""
        self._base = self._base + _AFTER & _MASK


# -- batches ---------------------------------------------------------------------------------------------------


def _mix_all(x: UInt64s) -> UInt64s:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(_FIRST)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(_SECOND)
    return x ^ (x >> np.uint64(31))


def fold_all(parts: UInt64s) -> UInt64s:
    """Return `fold` of each row of `parts`, shape (n, k) with numbers below 2**64. The result has shape (n,)."""
    state = np.zeros(len(parts), np.uint64)
    # Numbers below 2**64 need only one round of the inner loop in `fold`.
    for column in parts.T:
        state = _mix_all(state + np.uint64(_GOLDEN) + column)
    return state


def uniforms(keys: UInt64s, index: int) -> npt.NDArray[np.float64]:
    """Return number `index` (from 0) of each key's stream, shape (n,), in [0, 1)."""
    step = np.uint64((index + 1) * _GOLDEN & _MASK)
    return (_mix_all(keys + step) >> np.uint64(11)).astype(np.float64) * _UNIT
