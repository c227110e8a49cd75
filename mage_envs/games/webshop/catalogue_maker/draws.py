"""Random draws that use only uniform numbers, so that all versions of NumPy agree."""

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
    """Items to draw by weight."""

    def __init__(self, weights: Sequence[tuple[float, T]]) -> None:
        self.items = [item for _, item in weights]
        # The last cut may round below 1. Without it every number in [0, 1) selects an item.
        total = sum(weight for weight, _ in weights)
        self.cuts = [cut / total for cut in accumulate(weight for weight, _ in weights)][:-1]


class Draws:
    """A stream of draws that depends on the key alone."""

    def __init__(self, *key: int) -> None:
        self.uniform = _numbers(np.random.Generator(np.random.PCG64(_seeds(key)))).__next__
        """Function that returns the next number in [0, 1)."""

    def below(self, bound: int) -> int:
        """Return an integer from 0 to `bound` - 1."""
        return int(self.uniform() * bound)

    def between(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`, both included."""
        return low + int(self.uniform() * (high - low + 1))

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.uniform() < probability

    def choice(self, items: Sequence[T]) -> T:
        """Return one of `items`, all equally likely."""
        return items[int(self.uniform() * len(items))]

    def choose_weighted(self, items: Weighted[T]) -> T:
        """Return one of `items` by weight."""
        return items.items[bisect_right(items.cuts, self.uniform())]

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        """Return the items at `count` different positions of `items` (all if there are fewer), in random order."""
        # The first steps of a Fisher-Yates shuffle.
        pool = list(items)
        count = min(count, len(pool))
        for index in range(count):
            swap_index = index + int(self.uniform() * (len(pool) - index))
            pool[index], pool[swap_index] = pool[swap_index], pool[index]
        return pool[:count]

    def permute(self, items: Sequence[T]) -> list[T]:
        """Return all of `items` in random order."""
        return self.sample(items, len(items))

    def log_normal(self, median: float, sigma: float) -> float:
        """Return a log-normal number with this median."""
        # The method of Box and Muller needs uniform numbers alone. 1 - u avoids the logarithm of 0.
        radius = sqrt(-2.0 * log(1.0 - self.uniform()))
        return median * exp(sigma * radius * cos(2.0 * pi * self.uniform()))


def _seeds(key: tuple[int, ...]) -> np.random.SeedSequence:
    """Return a seed sequence equal to `SeedSequence(key[0], spawn_key=key[1:])`."""
    # Passing the words that NumPy would make of the key takes half the time. A seed above 32 bits has other words.
    if key[0] >> 32:
        return np.random.SeedSequence(key[0], spawn_key=key[1:])
    return np.random.SeedSequence(np.array((key[0], 0, 0, 0, *key[1:]), np.uint32))


def _numbers(generator: np.random.Generator) -> Iterator[float]:
    # A block at a time, because a call of NumPy costs much more than a number.
    while True:
        yield from generator.random(_BLOCK).tolist()
