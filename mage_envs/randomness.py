"""Keyed random streams: a stream is a function of (seed, role, episode, hand), never of what was drawn before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Protocol

import numpy as np

from mage_envs.seeding import first_values

Key = tuple[int, int, int]
"""(role, episode, hand)."""

GAME = 0
"""Role of the game's chance: deals, rooms, goals."""
OPPONENT = 1
"""Role of the first opponent's choices; the i-th further opponent has role `FURTHER_OPPONENTS + i`."""
POOL = 2
"""Role of the draws that open a meta-episode: first seat, then opponent."""
FURTHER_OPPONENTS = 3


@lru_cache(maxsize=4096)
def _initial_state(seed: int, role: int, episode: int, hand: int) -> dict[str, Any]:
    # Members of a group ask for the same keys, and setting a state costs a tenth of making one.
    return dict(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(role, episode, hand))).state)


FEW = 4
"""Uniform values of a stream that are kept; a hand of a table game rarely draws more."""
SEEDS_KEPT = 256
"""Seeds whose first values are kept."""


@lru_cache(maxsize=SEEDS_KEPT)
def _first_values(seed: int) -> dict[Key, Sequence[float]]:
    # Filled as streams are asked for; members of a group have the same seed, so they share it.
    return {}


def prepare(seeds: Sequence[int], keys: Sequence[Key]) -> None:
    """Makes the first values of these streams of these seeds together, at a twentieth of their cost one by one.

    It changes no number. More than `SEEDS_KEPT` seeds push each other out.
    """
    fitting = [seed for seed in dict.fromkeys(seeds) if 0 <= seed < 1 << 128]
    if fitting and keys:
        for seed, values in zip(fitting, first_values(fitting, keys, FEW).tolist(), strict=True):
            _first_values(seed).update(zip(keys, values, strict=True))


class Uniforms:
    """`random()` alone: stands in for a Generator with whoever calls nothing else of it (seat and pool draws)."""

    __slots__ = ("random",)

    def __init__(self, random: Callable[[], float]) -> None:
        self.random = random


class Streams(Protocol):
    """Where an environment takes its generators from."""

    def stream(self, role: int, episode: int, hand: int) -> np.random.Generator: ...

    def uniforms(self, role: int, episode: int, hand: int) -> Callable[[], float]:
        """The `random` of that stream, for who needs nothing else of it."""
        ...

    def first(self, role: int, episode: int, hand: int) -> float:
        """The first uniform value of that stream, for who needs no second."""
        ...


class _Rest:
    """The values of a stream behind the kept ones, for the rare hand that draws so many.

    An iterator and no generator function: to throw away one of those that was never used up costs as much as ten draws.
    """

    __slots__ = ("_key", "_random", "_seed")

    def __init__(self, seed: int, key: Key) -> None:
        self._seed, self._key = seed, key
        self._random: Callable[[], float] | None = None

    def __iter__(self) -> _Rest:
        return self

    def __next__(self) -> float:
        if self._random is None:
            generator = np.random.Generator(np.random.PCG64(0))
            generator.bit_generator.state = _initial_state(self._seed, *self._key)
            generator.random(FEW)
            self._random = generator.random
        return self._random()


class KeyedStreams:
    """`SeedSequence(seed, spawn_key=(role, episode, hand))`, made when asked for.

    One Generator object per role is rewound to the key's start, so a stream is valid until the next one of
    the same role is asked for.
    """

    __slots__ = ("_generators", "_held", "seed")

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._generators: dict[int, np.random.Generator] = {}
        self._held = _first_values(seed)

    def stream(self, role: int, episode: int, hand: int) -> np.random.Generator:
        generator = self._generators.get(role)
        if generator is None:
            generator = self._generators[role] = np.random.Generator(np.random.PCG64(0))
        generator.bit_generator.state = _initial_state(self.seed, role, episode, hand)
        return generator

    def uniforms(self, role: int, episode: int, hand: int) -> Callable[[], float]:
        values = self.values(role, episode, hand)
        return chain(values, _Rest(self.seed, (role, episode, hand))).__next__

    def first(self, role: int, episode: int, hand: int) -> float:
        return self.values(role, episode, hand)[0]

    def values(self, role: int, episode: int, hand: int) -> Sequence[float]:
        """The first `FEW` uniform values of that stream."""
        key = (role, episode, hand)
        return self._held.get(key) or self._learn(key)

    def _learn(self, key: Key) -> Sequence[float]:
        generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(self.seed, spawn_key=key)))
        values: list[float] = generator.random(FEW).tolist()
        self._held[key] = values
        return values


class SharedStream:
    """One Generator for everything, consumed in order: Gymnasium's `np_random` in the base ids."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator

    def stream(self, role: int, episode: int, hand: int) -> np.random.Generator:
        return self.generator

    def uniforms(self, role: int, episode: int, hand: int) -> Callable[[], float]:
        return self.generator.random

    def first(self, role: int, episode: int, hand: int) -> float:
        return self.generator.random()
