"""Means with clustered 95% intervals by Student's t."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

Z = 1.959963984540054
"""Quantile of the normal distribution for a two-sided 95% interval."""


@cache
def quantile(freedom: float) -> float:
    """Return Student's two-sided 95% quantile."""
    # SciPy is installed with open_spiel. Its import takes longer than all other modules of a command.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.975))


@dataclass(frozen=True)
class Estimate:
    """A mean and its 95% interval; no interval if there are fewer than two clusters."""

    mean: float
    low: float | None
    high: float | None
    n: int
    """Number of meta-episodes in the mean."""

    @property
    def half(self) -> float | None:
        """Half the width of the interval, or None without one."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


def estimate(
    values: Sequence[float],
    clusters: Sequence[Hashable],
    strata: Sequence[str] | None = None,
    weights: Mapping[str, float] | None = None,
    proportion: bool = False,
) -> Estimate:
    """Return the mean over strata and its clustered interval.

    The interval is linearised: value i adds w_s (x_i - mean_s) / n_s to its cluster's sum. The variance is G / (G - 1)
    times the sum of squares of the G sums, with G - 1 degrees of freedom. Strata without values are left out.

    Args:
        values: One value per meta-episode.
        strata: Stratum of each value (default: a single one).
        weights: Weight of each stratum (default: equal weights).
        proportion: True for Wilson's interval, which stays inside [0, 1] and has a positive width at both ends. Its
            sample size is the effective one of the clustered variance.

    Raises:
        ValueError: If `values` is empty, or if the lengths differ.
    """
    if not len(values) == len(clusters) == len(strata or values) or not len(values):
        raise ValueError(f"estimate() requires values with a cluster each, got {len(values)} and {len(clusters)}.")
    x = np.asarray(values, float)
    names, stratum = np.unique(np.array(list(strata) if strata else [""] * len(x)), return_inverse=True)
    counts = np.bincount(stratum)
    share = np.array([1.0 if weights is None else weights[str(name)] for name in names])
    share = share / share.sum()
    means = np.bincount(stratum, x) / counts
    mean = float(share @ means)
    numbers = {name: number for number, name in enumerate(dict.fromkeys(clusters))}
    cluster = [numbers[name] for name in clusters]
    sums = np.bincount(cluster, (share / counts)[stratum] * (x - means[stratum]))
    groups = len(sums)
    if groups < 2:
        return Estimate(mean, None, None, len(x))
    variance = float(groups / (groups - 1) * (sums**2).sum())
    t = quantile(groups - 1)
    low, high = (
        _wilson(mean, variance, groups, t) if proportion else (mean - t * variance**0.5, mean + t * variance**0.5)
    )
    return Estimate(mean, low, high, len(x))


def strata_error(strata: Sequence[tuple[float, Sequence[float]]]) -> tuple[float, float]:
    """Return the standard error of a weighted sum of means and its degrees of freedom.

    Each sample is one stratum. Its variance is estimated without bias, because strata of a few values are common. The
    degrees of freedom are those of F. E. Satterthwaite (1946) and B. L. Welch (1947).

    Args:
        strata: Weight of each stratum, and its values, two or more.
    """
    parts = [(weight**2 * float(np.var(values, ddof=1)) / len(values), len(values) - 1) for weight, values in strata]
    variance = sum(part for part, _ in parts)
    freedom = variance**2 / sum(part**2 / df for part, df in parts) if variance > 0 else 1.0
    return variance**0.5, freedom


def _wilson(p: float, variance: float, groups: int, t: float) -> tuple[float, float]:
    """Return Wilson's interval (E. B. Wilson, 1927) for the effective sample size p (1 - p) / variance.

    The number of clusters replaces the sample size if the variance is 0.
    """
    n = p * (1 - p) / variance if variance > 1e-15 else float(groups)
    centre = (p + t**2 / (2 * n)) / (1 + t**2 / n)
    half = t / (1 + t**2 / n) * (p * (1 - p) / n + t**2 / (4 * n**2)) ** 0.5
    return max(centre - half, 0.0), min(centre + half, 1.0)
