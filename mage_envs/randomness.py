"""Keyed random streams: a stream is a function of (seed, role, episode, hand), never of what was drawn before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import chain
from typing import Any, Protocol

import numpy as np

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


@lru_cache(maxsize=4096)
def _first_values(seed: int, role: int, episode: int, hand: int) -> tuple[float, ...]:
    sequence = np.random.SeedSequence(seed, spawn_key=(role, episode, hand))
    return tuple(np.random.Generator(np.random.PCG64(sequence)).random(_FIRST).tolist())


_FIRST = 8
"""Uniform values of a stream that are kept; a hand of a table game rarely draws more."""


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


class KeyedStreams:
    """`SeedSequence(seed, spawn_key=(role, episode, hand))`, made when asked for.

    One Generator object per role is rewound to the key's start, so a stream is valid until the next one of
    the same role is asked for.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._generators: dict[int, np.random.Generator] = {}

    def stream(self, role: int, episode: int, hand: int) -> np.random.Generator:
        generator = self._generators.get(role)
        if generator is None:
            generator = self._generators[role] = np.random.Generator(np.random.PCG64(0))
        generator.bit_generator.state = _initial_state(self.seed, role, episode, hand)
        return generator

    def uniforms(self, role: int, episode: int, hand: int) -> Callable[[], float]:
        values = _first_values(self.seed, role, episode, hand)
        return chain(values, self._further(role, episode, hand)).__next__

    def _further(self, role: int, episode: int, hand: int) -> Iterator[float]:
        generator = np.random.Generator(np.random.PCG64(0))
        generator.bit_generator.state = _initial_state(self.seed, role, episode, hand)
        generator.random(_FIRST)
        while True:
            yield generator.random()


class SharedStream:
    """One Generator for everything, consumed in order: Gymnasium's `np_random` in the base ids."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator

    def stream(self, role: int, episode: int, hand: int) -> np.random.Generator:
        return self.generator

    def uniforms(self, role: int, episode: int, hand: int) -> Callable[[], float]:
        return self.generator.random
