"""Welch's test of two means with unequal variances (B. L. Welch, 1947), from means, deviations and counts."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from scipy.special import stdtr, stdtrit


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


def difference(first_sample: tuple[float, float, int], second_sample: tuple[float, float, int]) -> WelchDifference:
    """Compare two samples of at least two values, each given as mean, standard deviation (n - 1) and n."""
    (first_mean, first_spread, first_n), (second_mean, second_spread, second_n) = first_sample, second_sample
    parts = first_spread**2 / first_n, second_spread**2 / second_n
    mean, variance = first_mean - second_mean, sum(parts)
    # If both samples are constant, the test has no degrees of freedom. The p-value is then 1 for equal means, else 0.
    if variance == 0:
        return WelchDifference(mean, mean, mean, float(mean == 0))
    # Welch-Satterthwaite equation.
    freedom = variance**2 / (parts[0] ** 2 / (first_n - 1) + parts[1] ** 2 / (second_n - 1))
    half = float(stdtrit(freedom, 0.975)) * sqrt(variance)
    return WelchDifference(mean, mean - half, mean + half, 2 * float(stdtr(freedom, -abs(mean) / sqrt(variance))))
