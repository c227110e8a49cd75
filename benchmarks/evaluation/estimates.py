"""Means with 95% intervals, by Student's t, and clustered. NumPy alone."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

Z = 1.959963984540054
"""The normal quantile of a two-sided 95% interval."""
_FEW = (12.706205, 4.302653, 3.182446, 2.776445, 2.570582)
"""Student's for 1 to 5 degrees of freedom."""


@cache
def quantile(freedom: int) -> float:
    """Student's t, two-sided 95%, to .0001: from the tables up to 5 degrees of freedom, else by the Cornish-Fisher
    expansion (Abramowitz and Stegun, 26.7.5)."""
    if freedom <= len(_FEW):
        return _FEW[freedom - 1]
    z = Z
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return float(sum(term / freedom**power for power, term in enumerate(terms)))


@dataclass(frozen=True)
class Estimate:
    """A mean and its 95% interval; no interval from fewer than two clusters."""

    mean: float
    low: float | None
    high: float | None
    n: int
    """Meta-episodes that went in."""


def way(value: Estimate, start: float | None, end: float | None) -> Estimate | None:
    """Return how far a value has come on the way from `start` (0) to `end` (1), both exact; None if there is no way."""
    if start is None or end is None or end - start < 1e-9:
        return None
    low, high = (None if one is None else (one - start) / (end - start) for one in (value.low, value.high))
    return Estimate((value.mean - start) / (end - start), low, high, value.n)


def estimate(
    values: Sequence[float],
    clusters: Sequence[Hashable],
    strata: Sequence[str] | None = None,
    weights: Mapping[str, float] | None = None,
    proportion: bool = False,
) -> Estimate:
    """The mean of `values` over strata weighed by `weights` (default: equally), one value per meta-episode.

    The interval is the linearised one: value i adds w_s (x_i - mean_s) / n_s to its cluster's sum, and the variance is
    G / (G - 1) times the sum of squares of the G sums, with G - 1 degrees of freedom. Strata without values drop out.
    `proportion`: Wilson's interval with the sample size that the clustered variance amounts to, so that it stays inside
    [0, 1] and open at its ends.
    """
    if not len(values) == len(clusters) == len(strata or values) or not len(values):
        raise ValueError(f"estimate() needs values with a cluster each, got {len(values)} and {len(clusters)}.")
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


def _wilson(p: float, variance: float, groups: int, t: float) -> tuple[float, float]:
    """E. B. Wilson, 1927, with the effective sample size p (1 - p) / variance (the clusters where that is 0 / 0)."""
    n = p * (1 - p) / variance if variance > 1e-15 else float(groups)
    centre = (p + t**2 / (2 * n)) / (1 + t**2 / n)
    half = t / (1 + t**2 / n) * (p * (1 - p) / n + t**2 / (4 * n**2)) ** 0.5
    return max(centre - half, 0.0), min(centre + half, 1.0)
