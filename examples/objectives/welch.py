"""Welch's test of two means with unequal variances (B. L. Welch, 1947), from means, deviations and counts."""

from __future__ import annotations

from dataclasses import dataclass
from math import atan, cos, gamma, pi, sqrt

import numpy as np

NODES, WEIGHTS = np.polynomial.legendre.leggauss(64)
"""Nodes and weights of the Gauss-Legendre rule for the tail of Student's distribution."""


@dataclass(frozen=True)
class WelchDifference:
    """Difference of two means."""

    mean: float
    low: float
    """Lower end of the 95% interval."""
    high: float
    """Upper end of the 95% interval."""
    p: float
    """Two-sided p-value."""


def tail(t: float, freedom: float) -> float:
    """Return the probability that Student's t with `freedom` degrees of freedom is above `t` >= 0."""
    # With t = sqrt(freedom) tan(a), the density becomes c cos(a)^(freedom - 1) on a bounded interval, which the rule
    # integrates well.
    start = atan(t / sqrt(freedom))
    half = (pi / 2 - start) / 2
    area = half * sum(w * cos(start + half * (1 + x)) ** (freedom - 1) for x, w in zip(NODES, WEIGHTS, strict=True))
    return float(gamma((freedom + 1) / 2) / (sqrt(pi) * gamma(freedom / 2)) * area)


def quantile(freedom: float) -> float:
    """Return the two-sided 95% point of Student's distribution, by bisection."""
    low, high = 0.0, 1000.0
    while high - low > 1e-9 * (1 + low):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle, freedom) > 0.025 else (low, middle)
    return low


def difference(first: tuple[float, float, int], second: tuple[float, float, int]) -> WelchDifference:
    """Compare two samples of at least two values, each given as mean, standard deviation (n - 1) and n."""
    (one, spread_one, n_one), (other, spread_other, n_other) = first, second
    parts = spread_one**2 / n_one, spread_other**2 / n_other
    mean, variance = one - other, sum(parts)
    # If both samples are constant, the test has no degrees of freedom. The p-value is then 1 for equal means, else 0.
    if variance == 0:
        return WelchDifference(mean, mean, mean, float(mean == 0))
    # Welch-Satterthwaite equation.
    freedom = variance**2 / (parts[0] ** 2 / (n_one - 1) + parts[1] ** 2 / (n_other - 1))
    half = quantile(freedom) * sqrt(variance)
    return WelchDifference(mean, mean - half, mean + half, 2 * tail(abs(mean) / sqrt(variance), freedom))
