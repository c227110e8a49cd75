"""Paired statistics against SciPy, against numbers worked out by hand, and in simulation."""

from __future__ import annotations

from fractions import Fraction
from math import comb
from statistics import NormalDist

import numpy as np
import pytest
from scipy import stats

from mage_envs.benchmarks.evaluation.scoring.estimates import quantile
from mage_envs.benchmarks.evaluation.scoring.paired import DRAWS, Pairs, _intervals, holm, mcnemar, sign_test

PANELS = [(128, 128), (132, 22), (512, 512), (516, 86)]
"""Meta-episodes and clusters: of one each, and of six as the panels of Kuhn Poker have them."""


def compare_values(first_values, second_values, clusters=None, proportion=False):
    pairs = Pairs(clusters or list(range(len(first_values))), [""] * len(first_values))
    pairs.add("x", first_values, second_values, proportion)
    return pairs.differences()[0]


def test_the_permutation_test_is_scipys():
    rng = np.random.default_rng(1)
    for count in (5, 9, 13):
        values = rng.normal(0.4, 1, count)
        exact_test = stats.permutation_test((values,), np.mean, permutation_type="samples", n_resamples=np.inf)
        assert sign_test(values[:, None]) == [pytest.approx(exact_test.pvalue)]
    values = rng.normal(0.15, 1, 60)
    sampled_test = stats.permutation_test((values,), np.mean, permutation_type="samples", n_resamples=20_000, rng=2)
    assert sign_test(values[:, None])[0] == pytest.approx(sampled_test.pvalue, abs=4 * (0.25 / DRAWS) ** 0.5)


def test_mcnemar_is_the_binomial_test_of_the_pairs_that_differ():
    for wins, losses in [(0, 0), (1, 0), (10, 1), (7, 4), (3, 3), (60, 38), (0, 512)]:
        differing = wins + losses
        tail = sum(Fraction(comb(differing, k), 2**differing) for k in range(min(wins, losses) + 1))
        assert mcnemar(wins, losses) == pytest.approx(min(float(2 * tail), 1.0), rel=1e-12)
    row = compare_values([1, 1, 0, 0, 1], [0, 1, 1, 0, 0], proportion=True)
    assert (row.only, row.mcnemar) == ((2, 1), 1.0)


def test_holm_steps_down():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]) == [1.0, 1.0]


def test_the_interval_is_scipys_bootstrap_at_students_level():
    rng = np.random.default_rng(3)
    values = rng.exponential(1, 40) - 0.8
    row = compare_values(values, np.zeros(40))
    level = 2 * NormalDist().cdf((40 / 39) ** 0.5 * quantile(39)) - 1
    bootstrap = stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, confidence_level=level, method="percentile", rng=4
    ).confidence_interval
    assert row.mean == pytest.approx(values.mean())
    assert (row.low, row.high) == pytest.approx((bootstrap.low, bootstrap.high), abs=0.02)


def test_clusters_are_drawn_whole_and_strata_weighed():
    pairs = Pairs([0, 0, 1, 1, 2, 2], ["a", "b"] * 3, {"a": 1, "b": 3})
    pairs.add("x", [4, 0, 4, 0, 4, 0], [0, 1, 0, 2, 0, 3])
    row = pairs.differences()[0]
    assert row.mean == pytest.approx(0.25 * 4 - 0.75 * 2)  # each cluster alone: 1 - .75, 1 - 1.5, 1 - 2.25
    assert (row.low, row.high) == pytest.approx((-1.25, 0.25))
    assert row.p == pytest.approx(4 / 8)  # of the eight sums of +-.25, +-.5, +-1.25 four are at least 1.5 away from 0


def test_what_a_panel_could_show_is_found_in_four_of_five():
    rng = np.random.default_rng(5)
    spread = [compare_values(rng.normal(0, 1, 100), np.zeros(100)).detectable for _ in range(3)]
    assert np.mean(spread) == pytest.approx((stats.t.ppf(0.975, 99) + stats.norm.ppf(0.8)) / 10, rel=0.15)
    cluster_means = rng.normal((quantile(99) + NormalDist().inv_cdf(0.8)) / 10, 1, (100, 2000)) / 100
    significant = np.abs(cluster_means.sum(0)) > quantile(99) * cluster_means.std(0, ddof=1) * 10
    assert significant.mean() == pytest.approx(0.8, abs=4 * (0.16 / 2000) ** 0.5)
    assert compare_values([1, 1], [1, 1]).detectable is None


@pytest.mark.parametrize(("count", "clusters"), PANELS)
def test_intervals_cover_and_the_test_keeps_its_level(count, clusters):
    """500 panels whose differences are skewed, rare and correlated in each cluster; the true mean is 0."""
    rng = np.random.default_rng([6, count, clusters])
    size, panels = count // clusters, 500
    shared = rng.exponential(1, (clusters, 1, panels)) - 1
    noise = rng.choice([-1.0, 0.0, 1.0], p=[0.1, 0.8, 0.1], size=(clusters, size, panels))
    sums = (0.3 * shared + noise).sum(1) / count
    low, high = _intervals(sums, np.full(clusters, size / count), 7)
    assert 0.93 <= ((low <= 0) & (high >= 0)).mean() <= 0.97
    symmetric = sums * rng.choice([-1.0, 1.0], size=sums.shape)
    rejected = (np.array(sign_test(symmetric, 8)) <= 0.05).mean()
    assert 0.02 <= rejected <= 0.08


def test_the_same_comparison_comes_out_the_same():
    rng = np.random.default_rng(9)
    a, b = rng.normal(size=(2, 30))
    assert compare_values(a, b) == compare_values(a, b)
    forward, backward = compare_values(a, b), compare_values(b, a)
    assert (forward.p, forward.detectable) == pytest.approx((backward.p, backward.detectable))
    with pytest.raises(ValueError, match="a cluster each"):
        Pairs([1], ["", ""])
