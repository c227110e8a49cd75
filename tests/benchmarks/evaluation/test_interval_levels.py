"""Levels of the bootstrap's intervals, and the warning of failures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mage_envs.benchmarks.evaluation.scoring import paired


@pytest.mark.parametrize(
    ("groups", "level"),
    # Phi(-sqrt(n / (n - 1)) t), with the 97.5% quantiles 12.7062, 4.3027, 2.7764 and 2.0930 of Student's t.
    [(2, 2.0e-72), (3, 6.83e-8), (5, 9.540e-4), (20, 1.588e-2)],
)
def test_the_levels_are_widened_to_those_of_student(groups: int, level: float, monkeypatch: pytest.MonkeyPatch) -> None:
    level_calls: list[list[float]] = []
    real = np.quantile

    def quantile(values: Any, levels: Any, **options: Any) -> Any:
        level_calls.append([float(level) for level in levels])
        return real(values, levels, **options)

    monkeypatch.setattr(np, "quantile", quantile)
    rng = np.random.default_rng(0)
    assert paired._intervals(rng.normal(size=(groups, 1)), np.ones(groups), 0) is not None
    assert level_calls == [[pytest.approx(level, rel=2e-2), pytest.approx(1 - level)]]


def test_the_interval_is_as_wide_as_that_of_student() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(size=(30, 1))
    intervals = paired._intervals(values, np.ones(30), 0)
    assert intervals is not None
    half = 2.0452 * values.std(ddof=1) / 30**0.5
    assert float(intervals[1][0] - intervals[0][0]) == pytest.approx(2 * half, rel=0.04)
