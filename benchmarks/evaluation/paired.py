"""Two runs of the same tasks compared: differences with intervals, p-values, what the panel could show. NumPy alone.

Everything is paired by task and clustered as in `scores`: what shares one seed is drawn, or changes its sign, together.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from benchmarks.evaluation.estimates import quantile

DRAWS = 10_000
"""Of the bootstrap and of the permutation test."""
SEED = 20_260_303
"""Of both, so that a comparison comes out the same each time."""
POWER = 0.8
_CHUNK = 500
"""Draws at once, which bounds the memory: clusters x `_CHUNK` numbers."""
_TIE = 1e-12
"""Sums that differ by less are equal: they are the same numbers added in another order."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PairedDifference:
    """One run's mean less another's."""

    measure: str
    mean: float
    low: float | None
    """Of the 95% interval; None from fewer than two clusters."""
    high: float | None
    p: float
    """Two-sided, of the permutation test."""
    adjusted: float
    """The same after Holm, over all tests that were made together."""
    detectable: float | None
    """The smallest true difference that a panel with this spread shows at the 5% level in 80% of all cases; None where
    nothing differs."""
    n: int
    """Pairs."""
    only: tuple[int, int] | None = None
    """Where the values are 0 and 1: pairs in which only the first, and only the second, has a 1."""
    mcnemar: float | None = None
    """Exact, from `only`; it takes the pairs for independent."""
    mcnemar_adjusted: float | None = None
    """The same after Holm, over all tests that were made together."""


class Pairs:
    """Values of two runs, a row per measure and a column per task."""

    def __init__(
        self,
        clusters: Sequence[Hashable],
        strata: Sequence[str],
        weights: Mapping[str, float] | None = None,
    ) -> None:
        """`clusters`, `strata`: of each task; the mean is over strata weighed by `weights` (default: equally)."""
        if not len(clusters) == len(strata) or not len(clusters):
            raise ValueError(f"Pairs need tasks with a cluster each, got {len(strata)} and {len(clusters)}.")
        names, stratum = np.unique(np.array(list(strata)), return_inverse=True)
        share = np.array([1.0 if weights is None else weights[str(name)] for name in names])
        self._weights: Floats = (share / share.sum() / np.bincount(stratum))[stratum]
        numbers = {name: number for number, name in enumerate(dict.fromkeys(clusters))}
        self._cluster = np.array([numbers[name] for name in clusters])
        self.clusters = len(numbers)
        self._rows: list[tuple[str, Floats, tuple[int, int] | None]] = []

    def add(self, measure: str, first: Sequence[float], second: Sequence[float], proportion: bool = False) -> None:
        """A measure, by task. `proportion`: all values are 0 or 1, and McNemar's test is asked for."""
        a, b = np.asarray(first, float), np.asarray(second, float)
        only = (int(((a == 1) & (b == 0)).sum()), int(((a == 0) & (b == 1)).sum())) if proportion else None
        self._rows.append((measure, a - b, only))

    def _summed(self, row: Floats) -> Floats:
        """The weighted sum in each cluster."""
        return np.bincount(self._cluster, self._weights * row).astype(np.float64)

    def differences(self, seed: int = SEED) -> list[PairedDifference]:
        """A row per measure, in their order."""
        sums = np.stack([self._summed(row) for _, row, _ in self._rows], axis=1)
        sizes = self._summed(np.ones(len(self._cluster)))
        means = sums.sum(axis=0)
        bounds = _intervals(sums, sizes, seed)
        chances = sign_test(sums, seed)
        found = []
        for number, (measure, row, only) in enumerate(self._rows):
            error = _error(sums[:, number] - means[number] * sizes)
            low, high = (None, None) if bounds is None else (float(bounds[0][number]), float(bounds[1][number]))
            t = quantile(self.clusters - 1) + NormalDist().inv_cdf(POWER) if self.clusters > 1 else 0.0
            found.append(
                PairedDifference(
                    measure=measure,
                    mean=float(means[number]),
                    low=low,
                    high=high,
                    p=chances[number],
                    adjusted=chances[number],
                    detectable=t * error if error > _TIE else None,
                    n=len(row),
                    only=only,
                    mcnemar=None if only is None else mcnemar(*only),
                )
            )
        return adjusted_together([found])[0]


def adjusted_together(tables: Sequence[Sequence[PairedDifference]]) -> list[list[PairedDifference]]:
    """Return the tables with Holm's correction over every test in all of them, so that one family of findings has one
    chance of a false one."""
    chances = [p for rows in tables for row in rows for p in (row.p, row.mcnemar) if p is not None]
    adjusted = iter(holm(chances))
    return [
        [
            replace(row, adjusted=next(adjusted), mcnemar_adjusted=None if row.mcnemar is None else next(adjusted))
            for row in rows
        ]
        for rows in tables
    ]


def _error(residuals: Floats) -> float:
    """The clustered standard error."""
    groups = len(residuals)
    return float((groups / (groups - 1) * (residuals**2).sum()) ** 0.5) if groups > 1 else 0.0


def _intervals(sums: Floats, sizes: Floats, seed: int) -> tuple[Floats, Floats] | None:
    """Ends of the 95% intervals, one per column of `sums` (clusters, measures); None from fewer than two clusters.

    The percentile interval of the cluster bootstrap, at the levels that make it as wide as Student's where the mean is
    normal (T. Hesterberg, What Teachers Should Know About the Bootstrap, 2015, section 4): with few clusters the plain
    one is too short.
    """
    groups = len(sums)
    if groups < 2:
        return None
    rng = np.random.default_rng([seed, 0])
    means = np.empty((DRAWS, sums.shape[1]))
    for start in range(0, DRAWS, _CHUNK):
        drawn = rng.multinomial(groups, np.full(groups, 1 / groups), size=min(_CHUNK, DRAWS - start)).astype(float)
        means[start : start + _CHUNK] = (drawn @ sums) / (drawn @ sizes)[:, None]
    level = NormalDist().cdf(-((groups / (groups - 1)) ** 0.5) * quantile(groups - 1))
    low, high = np.quantile(means, [level, 1 - level], axis=0)
    return low, high


def sign_test(sums: Floats, seed: int = SEED) -> list[float]:
    """Two-sided p-values of the columns of `sums` (clusters, measures) being symmetric about 0.

    Under the null the runs could be exchanged in each cluster: all signs, where they are at most `DRAWS`, else as many
    drawn ones and the observed one.
    """
    groups, observed = len(sums), np.abs(sums.sum(axis=0)) - _TIE
    if 2**groups <= DRAWS:
        signs = 1.0 - 2.0 * ((np.arange(2**groups)[:, None] >> np.arange(groups)) & 1)
        return [float(share) for share in (np.abs(signs @ sums) >= observed).mean(axis=0)]
    rng = np.random.default_rng([seed, 1])
    reached = np.ones(sums.shape[1])
    for start in range(0, DRAWS, _CHUNK):
        signs = 1.0 - 2.0 * rng.integers(2, size=(min(_CHUNK, DRAWS - start), groups))
        reached += (np.abs(signs @ sums) >= observed).sum(axis=0)
    return [float(share) for share in reached / (DRAWS + 1)]


def holm(chances: Sequence[float]) -> list[float]:
    """The p-values adjusted as S. Holm has it (1979), so that the chance of any false finding among them is bounded."""
    adjusted, least = [0.0] * len(chances), 0.0
    for rank, place in enumerate(sorted(range(len(chances)), key=lambda place: chances[place])):
        least = max(least, min((len(chances) - rank) * chances[place], 1.0))
        adjusted[place] = least
    return adjusted


def mcnemar(first: int, second: int) -> float:
    """Exact two-sided p-value: of the pairs that differ, each is as likely to favour the one as the other."""
    differing, fewer = first + second, min(first, second)
    tail: int = sum(comb(differing, k) for k in range(fewer + 1))
    return min(float(2 * tail / (1 << differing)), 1.0)
