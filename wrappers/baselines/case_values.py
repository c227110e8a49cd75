"""Memento's learned reading: how likely a case is to lead to a success, by logistic regression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log1p

import numpy as np

FEATURES = ("constant", "similarity", "case_succeeded", "same_task", "age")
RIDGE = 1.0
"""Weight of the penalty on the squared weights, which also keeps them finite where the classes can be separated."""
STEPS = 50


def features(similarity: float, succeeded: bool, *, same_task: bool, age: int) -> list[float]:
    """One row; `age` counts the cases stored since, this one included."""
    return [1.0, similarity, float(succeeded), float(same_task), log1p(age)]


@dataclass(frozen=True)
class CaseValues:
    """Q(state, case) = the chance that an episode which reads the case succeeds."""

    weights: list[float]
    """One per feature."""

    @classmethod
    def of(cls, weights: Sequence[float]) -> CaseValues:
        """From a bank's file. Raises ValueError where it does not fit."""
        if len(weights) != len(FEATURES):
            raise ValueError(f"The bank holds {len(weights)} weights for {len(FEATURES)} features; fill it anew.")
        return cls([float(weight) for weight in weights])

    @classmethod
    def learn(cls, rows: Sequence[tuple[Sequence[float], bool]]) -> CaseValues:
        """Newton's method on the penalised likelihood; a row is a case that was read, and whether the episode that
        read it then succeeded. Without rows all weights are 0."""
        weights = np.zeros(len(FEATURES))
        if rows:
            x = np.array([row for row, _ in rows])
            y = np.array([float(success) for _, success in rows])
            for _ in range(STEPS):
                chance = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
                slope = x.T @ (y - chance) - RIDGE * weights
                curvature = (x * (chance * (1 - chance))[:, None]).T @ x + RIDGE * np.eye(len(FEATURES))
                weights = weights + np.linalg.solve(curvature, slope)
        return cls([round(float(weight), 12) for weight in weights])

    def chance(self, row: Sequence[float]) -> float:
        """Between 0 and 1."""
        total = sum(weight * value for weight, value in zip(self.weights, row, strict=True))
        return 1 / (1 + exp(-min(max(total, -30.0), 30.0)))
