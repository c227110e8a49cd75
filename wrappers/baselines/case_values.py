"""Learned retrieval of Memento: the probability that a case leads to a success, by logistic regression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log1p

import numpy as np

FEATURES = ("constant", "similarity", "case_succeeded", "same_task", "age")
RIDGE = 1.0
"""Coefficient of the L2 penalty. It also keeps the weights finite if the classes are separable."""
STEPS = 50


def features(similarity: float, succeeded: bool, *, same_task: bool, age: int) -> list[float]:
    """Return the features of one case.

    Args:
        similarity: Similarity of the case to the query.
        succeeded: True if the case is a success.
        same_task: True if the case has the same state as the query.
        age: Number of cases stored since, this one included.

    Returns:
        One number per entry of `FEATURES`.
    """
    return [1.0, similarity, float(succeeded), float(same_task), log1p(age)]


@dataclass(frozen=True)
class CaseValues:
    """Model of Q(state, case), the probability that an episode succeeds after it reads the case."""

    weights: list[float]
    """One weight per feature."""

    @classmethod
    def of(cls, weights: Sequence[float]) -> CaseValues:
        """Return the model with the weights of a bank's file. Raises ValueError if their number is wrong."""
        if len(weights) != len(FEATURES):
            raise ValueError(f"The bank holds {len(weights)} weights for {len(FEATURES)} features. Create it again.")
        return cls([float(weight) for weight in weights])

    @classmethod
    def learn(cls, rows: Sequence[tuple[Sequence[float], bool]]) -> CaseValues:
        """Fit the weights by Newton's method on the penalised likelihood.

        A row holds the features of a case that an episode read, and True if that episode succeeded. Without rows, all
        weights are 0.
        """
        weights = np.zeros(len(FEATURES))
        if rows:
            x = np.array([row for row, _ in rows])
            y = np.array([float(success) for _, success in rows])
            for _ in range(STEPS):
                # Clipped, because exp() overflows for large negative sums.
                chance = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
                slope = x.T @ (y - chance) - RIDGE * weights
                curvature = (x * (chance * (1 - chance))[:, None]).T @ x + RIDGE * np.eye(len(FEATURES))
                weights = weights + np.linalg.solve(curvature, slope)
        # Rounded, so that rounding error does not change a bank's file and its hash.
        return cls([round(float(weight), 12) for weight in weights])

    def chance(self, row: Sequence[float]) -> float:
        """Return the probability of a success for one row of features."""
        total = sum(weight * value for weight, value in zip(self.weights, row, strict=True))
        return 1 / (1 + exp(-min(max(total, -30.0), 30.0)))
