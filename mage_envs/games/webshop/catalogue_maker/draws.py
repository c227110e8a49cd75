"""A stream of chance whose every draw comes from plain uniform numbers, so that all NumPy versions agree."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import cos, exp, log, pi, sqrt
from typing import Generic, TypeVar

import numpy as np

T = TypeVar("T")
_BLOCK = 64


class Weighted(Generic[T]):
    """Things to draw by weight."""

    def __init__(self, weights: Sequence[tuple[float, T]]) -> None:
        self.things = [thing for _, thing in weights]
        total = sum(weight for weight, _ in weights)
        self.cuts = [cut / total for cut in accumulate(weight for weight, _ in weights)][:-1]


class Draws:
    """Draws that depend on the key alone."""

    def __init__(self, *key: int) -> None:
        self.uniform = _numbers(np.random.Generator(np.random.PCG64(_seeds(key)))).__next__
        """The next number in [0, 1)."""

    def below(self, bound: int) -> int:
        return int(self.uniform() * bound)

    def between(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return low + int(self.uniform() * (high - low + 1))

    def chance(self, probability: float) -> bool:
        return self.uniform() < probability

    def choice(self, things: Sequence[T]) -> T:
        return things[int(self.uniform() * len(things))]

    def weighted(self, things: Weighted[T]) -> T:
        return things.things[bisect_right(things.cuts, self.uniform())]

    def sample(self, things: Sequence[T], count: int) -> list[T]:
        """`count` different places of `things` (all, if there are fewer), in random order."""
        pool = list(things)
        count = min(count, len(pool))
        for place in range(count):
            other = place + int(self.uniform() * (len(pool) - place))
            pool[place], pool[other] = pool[other], pool[place]
        return pool[:count]

    def shuffled(self, things: Sequence[T]) -> list[T]:
        return self.sample(things, len(things))

    def log_normal(self, median: float, sigma: float) -> float:
        """By Box and Muller."""
        radius = sqrt(-2.0 * log(1.0 - self.uniform()))
        return median * exp(sigma * radius * cos(2.0 * pi * self.uniform()))


def _seeds(key: tuple[int, ...]) -> np.random.SeedSequence:
    """`SeedSequence(key[0], spawn_key=key[1:])`, as the words that it makes of these, which takes half the time."""
    if key[0] >> 32:
        return np.random.SeedSequence(key[0], spawn_key=key[1:])
    return np.random.SeedSequence(np.array((key[0], 0, 0, 0, *key[1:]), np.uint32))


def _numbers(generator: np.random.Generator) -> Iterator[float]:
    while True:
        yield from generator.random(_BLOCK).tolist()
