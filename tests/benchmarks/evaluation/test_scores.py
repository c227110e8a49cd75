"""Scores against numbers worked out by hand or by another formula."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from mage_envs.benchmarks import Summary, estimate, summarise
from mage_envs.benchmarks.evaluation.scoring.estimates import quantile
from mage_envs.benchmarks.evaluation.scoring.exact_values import ExactValues
from mage_envs.benchmarks.evaluation.scoring.scores import cluster_of, read_scores
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.games.tictactoe import TicTacToe
from mage_envs.games.webshop.game import WebShop
from mage_envs.opponents import make_opponent
from mage_envs.opponents.exact import best_response
from tests.benchmarks.results import make_trajectory

KUHN = KuhnPoker()


def test_interval_of_independent_values_is_the_textbooks():
    values = [1.0, 2.0, 3.0, 4.0]
    e = estimate(values, [5, 6, 7, 8])
    assert (e.mean, e.n) == (2.5, 4)
    assert e.half == pytest.approx(3.182446 * (5 / 3 / 4) ** 0.5, rel=1e-6)
    assert (e.low + e.high) / 2 == pytest.approx(2.5)


def test_clusters_add_up_before_they_are_squared():
    # sums of (x - 2.5) / 4: -0.5 and +0.5; variance 2 / 1 * (0.25 + 0.25) = 1
    assert estimate([1, 2, 3, 4], [0, 0, 1, 1]).half == pytest.approx(quantile(1))
    # luck that cancels within a cluster counts for nothing
    assert estimate([1, 4, 3, 2], [0, 0, 1, 1]).half == 0


def test_strata_are_weighed():
    # 0.25 * 1 + 0.75 * 12; terms -+0.125 and -+0.75; variance 4 / 3 * 2 * (0.125**2 + 0.75**2)
    e = estimate([0, 2, 10, 14], [0, 1, 2, 3], ["a", "a", "b", "b"], {"a": 1, "b": 3})
    assert e.mean == pytest.approx(9.25)
    assert e.half == pytest.approx(quantile(3) * (4 / 3 * 2 * (0.125**2 + 0.75**2)) ** 0.5)
    equal = estimate([0, 2, 10, 14, 12], [0, 1, 2, 3, 4], ["a", "a", "b", "b", "b"])
    assert equal.mean == pytest.approx((1 + 12) / 2)


def test_proportions_have_wilsons_interval():
    e = estimate([1] * 8 + [0] * 2, range(10), proportion=True)
    n = 9  # what 0.16 / (0.16 / 9) amounts to: the variance of the mean is p (1 - p) / (10 - 1)
    t = quantile(9)
    ends = sorted(np.roots([1 + t**2 / n, -(2 * 0.8 + t**2 / n), 0.8**2]).real)  # (p - q)^2 = t^2 q (1 - q) / n
    assert (e.low, e.high) == pytest.approx(tuple(ends))
    sure = estimate([1] * 10, range(10), proportion=True)
    assert (sure.low, sure.high) == pytest.approx((10 / (10 + t**2), 1.0))
    never = estimate([0] * 10, range(10), proportion=True)
    assert (never.low, never.high) == pytest.approx((0.0, t**2 / (10 + t**2)))


def test_intervals_cover_what_they_should():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        luck = rng.normal(size=60)
        values = np.repeat(luck, 3) + rng.normal(size=180)
        e = estimate(list(values), list(np.repeat(np.arange(60), 3)))
        covered += e.low <= 0 <= e.high
    assert 0.915 <= covered / 400 <= 0.98


def test_quantiles_are_students():
    # Closed forms of the distribution for 1, 2 and 4 degrees of freedom (W. T. Shaw, 2006).
    p = 0.975
    assert quantile(1) == pytest.approx(math.tan(math.pi * (p - 0.5)), rel=1e-12)
    assert quantile(2) == pytest.approx((2 * p - 1) / (2 * p * (1 - p)) ** 0.5, rel=1e-12)
    a = 4 * p * (1 - p)
    assert quantile(4) == pytest.approx(2 * (math.cos(math.acos(a**0.5) / 3) / a**0.5 - 1) ** 0.5, rel=1e-12)
    table = {3: 3.18245, 5: 2.57058, 6: 2.44691, 9: 2.26216, 30: 2.04227, 255: 1.96931}
    for freedom, value in table.items():
        assert quantile(freedom) == pytest.approx(value, abs=5e-6)
    assert quantile(10**9) == pytest.approx(NormalDist().inv_cdf(p), abs=1e-8)


@pytest.mark.parametrize(("rate", "alike"), [(0.32, 0.05), (0.32, 0.15), (0.69, 0.1), (0.06, 0.05)])
def test_intervals_by_family_cover_what_those_by_meta_episode_do_not(rate, alike):
    """Ten families, as WebShop's `val` has: the success rate of each is drawn from a beta distribution."""
    rng = np.random.default_rng(0)
    families = np.repeat(np.arange(10), [11, 11, 12, 12, 12, 13, 13, 14, 15, 15])
    covered = np.zeros(2)
    for _ in range(500):
        chances = rng.beta(rate * (1 / alike - 1), (1 - rate) * (1 / alike - 1), 10)
        values = list((rng.random(128) < chances[families]).astype(float))
        for method_index, clusters in enumerate((families, np.arange(128))):
            e = estimate(values, list(clusters), proportion=True)
            covered[method_index] += e.low <= rate <= e.high
    assert covered[0] / 500 >= 0.92
    assert covered[1] / 500 <= 0.91


def test_a_goals_family_is_its_cluster():
    game = WebShop("val")
    goals = list(game.shop.goal_ids("val"))
    mine = replace(make_trajectory([1], opponent="", seed=7), task_id=goals[0])
    same_family = replace(mine, task_id=None, task=replace(mine.task, task_id=goals[1], seed=8))
    other_family = replace(mine, task_id=goals[-1])
    assert cluster_of(mine, game) == cluster_of(same_family, game) != cluster_of(other_family, game)
    assert cluster_of(replace(mine, task_id=None), game) == 7
    assert cluster_of(mine, KUHN) == 7
    alike = [
        replace(make_trajectory([v], opponent="", seed=i), task_id=goals[i % 2]) for i, v in enumerate((0, 1, 1, 0))
    ]
    assert summarise(alike, game).overall.episodes[0].success.estimate.low is None, "one family is one cluster"


def test_one_cluster_has_no_interval_and_nothing_no_mean():
    assert (estimate([1, 3], [4, 4]).half, estimate([1, 3], [4, 4]).mean) == (None, 2.0)
    with pytest.raises(ValueError, match="requires values"):
        estimate([], [])


def test_gain_is_paired_within_the_meta_episode():
    rows = [make_trajectory([v, 0, v + 1], seed=i) for i, v in enumerate([-2, 1, 2, -1])]
    row = summarise(rows, KUHN).rows[0]
    assert row.gain.mean == 1
    assert row.gain.half == 0  # all of them gained exactly 1, however different they were
    assert row.episodes[0].returns.estimate.half > 1
    assert row.success_gain.mean == pytest.approx((0 + 0 + 0 + 0) / 4)


def test_early_stop_leaves_no_gain_and_no_ceiling_of_the_rest():
    rows = [
        make_trajectory([1], planned=3, seed=0),
        make_trajectory([-1, -1, 2], seed=1),
        make_trajectory([-1, -1, -1], seed=2),
    ]
    summary = summarise(rows, KUHN)
    row = summary.rows[0]
    assert summary.early_stop
    assert (row.gain, row.success_gain) == (None, None)
    assert [e.success.estimate.n for e in row.episodes] == [3, 2, 2]
    assert [e.success.estimate.mean for e in row.episodes] == pytest.approx([1 / 3, 0, 1 / 2])
    assert [e.returns.ceiling is None for e in row.episodes] == [False, True, True]
    assert [e.mean for e in row.pass_at] == pytest.approx([1 / 3, 1 / 3, 2 / 3])  # the unplayed count the win
    assert [e.n for e in row.pass_at] == [3, 3, 3]
    assert not summarise(rows[1:], KUHN).early_stop


def test_pass_at_k_and_the_other_rates():
    rows = [
        make_trajectory([1, -1, -1], seed=0),
        make_trajectory([-1, 0, 1], seed=1, invalid=3),
        make_trajectory([-1, -1, -1], seed=2),
        make_trajectory([0, 2, -2], seed=3, timeouts=[2]),
        make_trajectory([1, 1, 1], seed=4, failure="opponent: broke"),
    ]
    row = summarise(rows, KUHN).rows[0]
    assert [e.mean for e in row.pass_at] == [0.25, 0.5, 0.75]
    assert (row.meta_episodes, row.failures) == (4, 1)
    assert row.invalid == 3 / 24
    assert [e.draws for e in row.episodes] == [0.25, 0.25, 0]
    assert [e.timeouts for e in row.episodes] == [0, 0, 0.25]


def test_returns_are_per_hand():
    rows = [make_trajectory([3, -3], seats=[(0, 1, 0), (1, 0, 1)], seed=i) for i in range(2)]
    row = summarise(rows, KUHN).rows[0]
    assert [e.returns.estimate.mean for e in row.episodes] == [1, -1]


def test_ceilings_are_those_of_the_seats_really_played():
    # conservative: 1/6 for the first seat, 1/3 for the second (method.md section 8)
    alternate = summarise([make_trajectory([1, 1, 1], seed=0)], KUHN).rows[0]
    assert [e.returns.ceiling for e in alternate.episodes] == pytest.approx([1 / 6, 1 / 3, 1 / 6])
    row = summarise(
        [make_trajectory([1, 1], seats=[(1,), (0,)]), make_trajectory([1, 1], seats=[(0,), (1,)])], KUHN
    ).rows[0]
    assert [e.returns.ceiling for e in row.episodes] == pytest.approx([0.25, 0.25])
    three = summarise([make_trajectory([1], seats=[(0, 1, 0)])], KUHN).rows[0].episodes[0]
    assert three.returns.ceiling == pytest.approx((1 / 6 + 1 / 3 + 1 / 6) / 3)
    assert three.success.ceiling is None


def test_success_ceilings_where_a_hand_is_the_episode():
    row = summarise([make_trajectory([1], opponent="cfr-argmax", seats=[(1,)])], KUHN).rows[0]
    assert row.episodes[0].success.ceiling == pytest.approx(0.5)  # method.md section 7
    assert row.episodes[0].returns.ceiling == pytest.approx(1 / 6)


def test_the_demo_pools_exact_values():
    names = ("kuhn/soft-conservative", "kuhn/soft-aggressive", "kuhn/soft-station", "kuhn/soft-scared")
    rows = [make_trajectory([1], opponent=name, seats=[(seat,)], seed=1) for name in names for seat in (0, 1)]
    summary = summarise(rows, KUHN)
    overall = summary.overall.episodes[0].returns
    assert overall.blind == pytest.approx(0.1209, abs=5e-5)
    assert overall.ceiling == pytest.approx(0.2729, abs=5e-5)
    opponent_returns = [row.episodes[0].returns for row in summary.rows]
    assert np.mean([m.blind for m in opponent_returns]) == pytest.approx(overall.blind)
    assert all(m.blind <= m.ceiling for m in opponent_returns)


def test_an_exchanged_opponent_has_the_ceiling_of_the_one_in_force():
    row = summarise([make_trajectory([1, 1, 1], opponent="switch:kuhn/conservative,uniform,2")], KUHN).rows[0]
    assert [e.returns.ceiling for e in row.episodes] == pytest.approx([1 / 6, 1 / 3, 1 / 2])


def test_sampled_and_unnamed_opponents_have_no_exact_values():
    for game, name in ((TicTacToe(), "mcts:10"), (KUHN, "SomebodysClass")):
        summary = summarise([make_trajectory([1], opponent=name)], game)
        measure = summary.overall.episodes[0].measure(summary.objective)
        assert (measure.ceiling, measure.blind) == (None, None)


def test_tictactoe_is_scored_by_wins():
    rows = [
        make_trajectory([1], opponent=f"tictactoe/pattern-{n}", seats=[(s,)], seed=s) for n in (1, 2) for s in (0, 1)
    ]
    summary = summarise(rows, TicTacToe())
    assert summary.objective == "success"
    success = summary.overall.episodes[0].success
    assert success.ceiling == pytest.approx(1.0)
    assert 0.5 < success.blind <= 1.0 + 1e-12
    assert summary.rows[0].episodes[0].success.blind is None  # only its mean over the pool is known
    assert summary.overall.episodes[0].returns.ceiling is None


def test_weights_enter_the_overall_row():
    rows = [make_trajectory([2], opponent="kuhn/rock", seed=0), make_trajectory([-2], opponent="cfr", seed=1)]
    summary = summarise(rows, KUHN, weights={"kuhn/rock": 3, "cfr": 1})
    assert summary.overall.episodes[0].returns.estimate.mean == pytest.approx(1.0)
    assert [row.weight for row in summary.rows] == [0.75, 0.25]
    with pytest.raises(ValueError, match="weights must name the opponents met"):
        summarise(rows, KUHN, weights={"cfr": 1})
    with pytest.raises(ValueError, match="so there are no scores"):
        summarise([], KUHN)


def test_a_row_of_failures_alone_is_still_a_row():
    rows = [make_trajectory([1], opponent="cfr", failure="opponent: x"), make_trajectory([1, 2], opponent="kuhn/rock")]
    row = summarise(rows, KUHN).rows[0]
    assert (row.meta_episodes, row.failures, row.episodes, row.pass_at) == (0, 1, (), ())


def test_json_round_trip():
    rows = [make_trajectory([1, -1], seed=i, opponent=name) for i in range(3) for name in ("kuhn/rock", "Unnamed")]
    summary = summarise(rows, KUHN, agent="a", panel="p")
    assert read_scores(Summary, json.dumps(summary.to_json()).encode()) == summary


def test_the_ceilings_of_a_pool_are_the_best_responses():
    pool = {"kuhn/rock": 0.5, "kuhn/nash": 0.25, "switch:kuhn/rock,kuhn/maniac,1": 0.25}
    exact = ExactValues(KUHN, pool)
    for name, objective, seat, episode in itertools.product(pool, ("returns", "success"), (0, 1), (0, 1)):
        response_value = best_response(KUHN, make_opponent(name, KUHN), seat, objective, episode).value
        ceiling = exact.ceiling(name, episode, seat, objective)
        assert ceiling == pytest.approx(response_value, abs=1e-12), (name, objective, seat, episode)
