"""Paired comparison of two runs of the same tasks: differences, intervals, p-values, power.

Everything is paired by task and clustered as in `scores`: meta-episodes that share a seed are drawn, or change their
sign, together.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from mage_envs.benchmarks.evaluation.scoring.estimates import quantile

DRAWS = 10_000
"""Number of draws of the bootstrap and of the permutation test."""
SEED = 20_260_303
"""Seed of both, so that a repeated comparison returns the same numbers."""
POWER = 0.8
"""Probability with which a detectable difference is significant."""
SIGNIFICANT = 0.05
"""Level of the adjusted p-values below which one run ranks above another."""
_CHUNK = 500
"""Draws per block. It limits the memory to clusters x `_CHUNK` numbers."""
_TIE = 1e-12
"""Tolerance for equal sums, because the same numbers may be added in another order."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PairedDifference:
    """Difference between the means of two runs."""

    measure: str
    mean: float
    low: float | None
    """Lower end of the 95% interval; None if there are fewer than two clusters."""
    high: float | None
    p: float
    """Two-sided p-value of the permutation test."""
    adjusted: float
    """`p` after Holm's correction over all tests that were made together."""
    detectable: float | None
    """Smallest true difference that a panel with this spread detects at the 5% level with 80% power. None if the spread
    is 0."""
    n: int
    """Number of pairs."""
    only: tuple[int, int] | None = None
    """For values of 0 and 1: the number of pairs in which only the first run has a 1, and in which only the second has
    one."""
    mcnemar: float | None = None
    """p-value of McNemar's exact test on `only`, which treats the pairs as independent."""
    mcnemar_adjusted: float | None = None
    """`mcnemar` after Holm's correction over all tests that were made together."""


class Pairs:
    """Values of two runs, with a row per measure and a column per task."""

    def __init__(
        self,
        clusters: Sequence[Hashable],
        strata: Sequence[str],
        weights: Mapping[str, float] | None = None,
    ) -> None:
        """Prepare the clusters and the weight of each task.

        Args:
            weights: Weight of each stratum in the mean (default: equal weights).

        Raises:
            ValueError: If the tasks are empty, or if the lengths differ.
        """
        if not len(clusters) == len(strata) or not len(clusters):
            raise ValueError(f"Pairs requires tasks with a cluster each, got {len(strata)} and {len(clusters)}.")
        names, stratum = np.unique(np.array(list(strata)), return_inverse=True)
        share = np.array([1.0 if weights is None else weights[str(name)] for name in names])
        self._weights: Floats = (share / share.sum() / np.bincount(stratum))[stratum]
        numbers = {name: number for number, name in enumerate(dict.fromkeys(clusters))}
        self._cluster = np.array([numbers[name] for name in clusters])
        self.clusters = len(numbers)
        self._rows: list[tuple[str, Floats, tuple[int, int] | None]] = []

    def add(
        self, measure: str, first_values: Sequence[float], second_values: Sequence[float], proportion: bool = False
    ) -> None:
        """Add a measure.

        Args:
            first_values: Value of the first run for each task.
            second_values: Value of the second run for each task.
            proportion: True if all values are 0 or 1, which adds McNemar's test.
        """
        a, b = np.asarray(first_values, float), np.asarray(second_values, float)
        only = (int(((a == 1) & (b == 0)).sum()), int(((a == 0) & (b == 1)).sum())) if proportion else None
        self._rows.append((measure, a - b, only))

    def _sum_clusters(self, row: Floats) -> Floats:
        """Return the weighted sum of each cluster."""
        return np.bincount(self._cluster, self._weights * row).astype(np.float64)

    def differences(self, seed: int = SEED) -> list[PairedDifference]:
        """Return one row per measure, in the order of `add`."""
        sums = np.stack([self._sum_clusters(row) for _, row, _ in self._rows], axis=1)
        sizes = self._sum_clusters(np.ones(len(self._cluster)))
        means = sums.sum(axis=0)
        bounds = _intervals(sums, sizes, seed)
        chances = sign_test(sums, seed)
        rows = []
        for number, (measure, row, only) in enumerate(self._rows):
            error = _error(sums[:, number] - means[number] * sizes)
            low, high = (None, None) if bounds is None else (float(bounds[0][number]), float(bounds[1][number]))
            # Difference detected with power 1 - b at level a: the standard error times the sum of the quantiles of a /
            # 2 and b.
            t = quantile(self.clusters - 1) + NormalDist().inv_cdf(POWER) if self.clusters > 1 else 0.0
            rows.append(
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
        return adjust_jointly([rows])[0]


def adjust_jointly(tables: Sequence[Sequence[PairedDifference]]) -> list[list[PairedDifference]]:
    """Return the tables with Holm's correction over every test in all of them.

    A reader who looks for any significant row runs all tests at once, so all tables form one family.
    """
    chances = [p for rows in tables for row in rows for p in (row.p, row.mcnemar) if p is not None]
    # The nested loops below must consume the values in the order of `chances`.
    adjusted = iter(holm(chances))
    return [
        [
            replace(row, adjusted=next(adjusted), mcnemar_adjusted=None if row.mcnemar is None else next(adjusted))
            for row in rows
        ]
        for rows in tables
    ]


def _error(residuals: Floats) -> float:
    """Return the clustered standard error."""
    groups = len(residuals)
    return float((groups / (groups - 1) * (residuals**2).sum()) ** 0.5) if groups > 1 else 0.0


def _intervals(sums: Floats, sizes: Floats, seed: int) -> tuple[Floats, Floats] | None:
    """Return the ends of the 95% intervals, one per column of `sums` (clusters, measures).

    The result is None if there are fewer than two clusters.

    This is the percentile interval of the cluster bootstrap. Its levels are widened so that it is as wide as Student's
    interval for a normal mean (T. Hesterberg, What Teachers Should Know About the Bootstrap, 2015, section 4). The
    plain one is too short if there are few clusters.
    """
    groups = len(sums)
    if groups < 2:
        return None
    # The second number keeps this stream apart from that of `sign_test`.
    rng = np.random.default_rng([seed, 0])
    means = np.empty((DRAWS, sums.shape[1]))
    for start in range(0, DRAWS, _CHUNK):
        resampled = rng.multinomial(groups, np.full(groups, 1 / groups), size=min(_CHUNK, DRAWS - start)).astype(float)
        means[start : start + _CHUNK] = (resampled @ sums) / (resampled @ sizes)[:, None]
    level = NormalDist().cdf(-((groups / (groups - 1)) ** 0.5) * quantile(groups - 1))
    low, high = np.quantile(means, [level, 1 - level], axis=0)
    return low, high


def sign_test(sums: Floats, seed: int = SEED) -> list[float]:
    """Return two-sided p-values for the symmetry about 0 of the columns of `sums` (clusters, measures).

    Under this hypothesis the runs are exchangeable in each cluster. All sign patterns are used if there are at most
    `DRAWS`. Otherwise `DRAWS` patterns are drawn, and the observed one is added.
    """
    groups, observed = len(sums), np.abs(sums.sum(axis=0)) - _TIE
    if 2**groups <= DRAWS:
        signs = 1.0 - 2.0 * ((np.arange(2**groups)[:, None] >> np.arange(groups)) & 1)
        return [float(share) for share in (np.abs(signs @ sums) >= observed).mean(axis=0)]
    rng = np.random.default_rng([seed, 1])
    # The ones count the observed pattern, so that a p-value is never 0.
    reached = np.ones(sums.shape[1])
    for start in range(0, DRAWS, _CHUNK):
        signs = 1.0 - 2.0 * rng.integers(2, size=(min(_CHUNK, DRAWS - start), groups))
        reached += (np.abs(signs @ sums) >= observed).sum(axis=0)
    return [float(share) for share in reached / (DRAWS + 1)]


def rank_intervals(count: int, tests: Mapping[tuple[int, int], tuple[float, float]]) -> list[tuple[int, int]]:
    """Return the best and the worst rank of each run that paired tests cannot rule out.

    A run ranks above another one if their test is significant after Holm over all pairs.

    Args:
        tests: Mean of the first run less the second and p-value, by the indices of the two runs.
    """
    above: dict[int, set[int]] = {run: set() for run in range(count)}
    adjusted = holm([p for _, p in tests.values()])
    for ((first_run, second_run), (mean, _)), p in zip(tests.items(), adjusted, strict=True):
        if p <= SIGNIFICANT:
            worse, better = (second_run, first_run) if mean > 0 else (first_run, second_run)
            above[worse].add(better)
    below = {run: sum(run in better for better in above.values()) for run in above}
    return [(1 + len(above[run]), count - below[run]) for run in range(count)]


def holm(chances: Sequence[float]) -> list[float]:
    """Return the p-values after Holm's correction (1979), which bounds the probability of any false finding."""
    adjusted, bound = [0.0] * len(chances), 0.0
    for rank, index in enumerate(sorted(range(len(chances)), key=lambda i: chances[i])):
        bound = max(bound, min((len(chances) - rank) * chances[index], 1.0))
        adjusted[index] = bound
    return adjusted


def mcnemar(first_only: int, second_only: int) -> float:
    """Return the exact two-sided p-value of McNemar's test.

    Under the null hypothesis, each pair that differs favours either run with probability 1/2.
    """
    from scipy.special import bdtr

    # The binomial distribution's lower tail; with equal counts both tails overlap.
    return min(2 * float(bdtr(min(first_only, second_only), first_only + second_only, 0.5)), 1.0)
