"""The suite's one keyed random stream, counter-based: splitmix64 (Steele, Lea and Flood, 2014).

A stream is a function of its key (seed, role, episode, hand), never of what was drawn before. Number i of a stream is
`mix(key + (i + 1) * GOLDEN)`, in plain Python for single draws and in NumPy for a batch, to the same bit. Whoever needs
more than uniform numbers gets a NumPy Generator on a Philox with the same key.
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
"""Role of the policy in seat 0; that of seat s is `SEATS + s`."""

SEED_BITS = 53
"""Seeds that the suite makes are below 2**53, so that every JSON reader keeps them."""
_MASK = 0xFFFFFFFFFFFFFFFF
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_APART = 0xD1342543DE82EF95
"""Odd: where the streams of one seed begin, so far from each other that none runs into another."""
_AFTER = 0xDA942042E4DD58B5
"""Odd likewise: how far the streams of a following seed are from those before it."""
_UNIT = 2.0**-53


def mix(x: int) -> int:
    """The finaliser of splitmix64 for a number below 2**64: every input bit flips half of the output bits."""
    x = (x ^ (x >> 30)) * _FIRST & _MASK
    x = (x ^ (x >> 27)) * _SECOND & _MASK
    return x ^ (x >> 31)


def fold(*parts: int) -> int:
    """One number below 2**64 for a sequence of whole numbers of any size."""
    state = 0
    for part in parts:
        while True:
            state = mix((state + _GOLDEN + part) & _MASK)
            part >>= 64
            if part in (0, -1):
                break
    return state


def seed_of(*parts: int) -> int:
    """A seed, below 2**53, for a sequence of whole numbers."""
    return fold(*parts) >> (64 - SEED_BITS)


def uniform(key: int, index: int = 0) -> float:
    """Number `index` (from 0) of the stream of a key below 2**64, in [0, 1)."""
    return (mix(key + (index + 1) * _GOLDEN & _MASK) >> 11) * _UNIT


class Stream:
    """Uniform numbers of one key."""

    def __init__(self, key: int) -> None:
        self.key = key
        self._drawn = 0

    def random(self) -> float:
        """The next number in [0, 1)."""
        self._drawn += 1
        return uniform(self.key, self._drawn - 1)

    def generator(self) -> np.random.Generator:
        """A new NumPy Generator of this key, for who needs more than uniform numbers (5 us)."""
        key = cast(np.random.SeedSequence, _Key(mix(self.key)))  # Philox takes any ISeedSequence; NumPy's stub does not
        return np.random.Generator(np.random.Philox(key))


class _Key(ISpawnableSeedSequence):
    """What a Philox is keyed with, to the state of `Philox(key=...)`. That one would first ask the operating system for
    entropy, which takes four times as long, and would spawn from it: other generators in each process."""

    def __init__(self, key: int) -> None:
        self._key = key
        self._spawned = 0

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> npt.NDArray[Any]:
        """The key, as a Philox wants it; for any other bit generator what NumPy makes of it."""
        if n_words != 2 or dtype is not np.uint64:
            return np.random.SeedSequence(self._key).generate_state(n_words, dtype)
        words = np.zeros(2, np.uint64)
        words[0] = self._key
        return words

    def spawn(self, n_children: int) -> list[_Key]:
        """Keys of further generators, never the same ones again."""
        first, self._spawned = self._spawned, self._spawned + n_children
        return [_Key(fold(self._key, number)) for number in range(first, self._spawned)]


class Streams:
    """All streams of one seed (or of several whole numbers)."""

    def __init__(self, *seed: int) -> None:
        self._base = fold(*seed)

    def at(self, role: int, episode: int = 0, hand: int = 0) -> Stream:
        """The stream of a role (below 256) in a hand of an episode."""
        return Stream(self._key(role, episode, hand))

    def number(self, role: int, episode: int = 0, hand: int = 0, index: int = 0) -> float:
        """Number `index` of that stream."""
        return uniform(self._key(role, episode, hand), index)

    def _key(self, role: int, episode: int, hand: int) -> int:
        return self._base + (role + (episode << 8) + (hand << 32)) * _APART & _MASK

    def advance(self) -> None:
        """Goes on to the streams of whatever comes after, where nobody names a seed for it."""
        self._base = self._base + _AFTER & _MASK


# -- many at once ----------------------------------------------------------------------------------------------


def _mix_all(x: UInt64s) -> UInt64s:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(_FIRST)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(_SECOND)
    return x ^ (x >> np.uint64(31))


def fold_all(parts: UInt64s) -> UInt64s:
    """`fold` of each row of `parts` (n, k), whose numbers are below 2**64: (n,)."""
    state = np.zeros(len(parts), np.uint64)
    for column in parts.T:
        state = _mix_all(state + np.uint64(_GOLDEN) + column)
    return state


def uniforms(keys: UInt64s, index: int) -> npt.NDArray[np.float64]:
    """Number `index` (from 0) of the stream of each key: (n,), in [0, 1)."""
    step = np.uint64((index + 1) * _GOLDEN & _MASK)
    return (_mix_all(keys + step) >> np.uint64(11)).astype(np.float64) * _UNIT
