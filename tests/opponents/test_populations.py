"""Fixed pools, prioritised sampling and the league, without a trainer."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mage_envs.opponents import CURVES, FixedPool, League, Population, PrioritisedPool

POOL = {"easy": 1.0, "even": 1.0, "hard": 1.0, "twice": 2.0}
RESULTS = [("easy", 1.0)] * 8 + [("even", 0.5)] * 8 + [("hard", 0.0)] * 8 + [("twice", 0.0)] * 8


def test_a_fixed_pool_stays_as_it_is() -> None:
    pool = FixedPool(POOL)
    pool.record(RESULTS)
    assert pool.weights() == POOL
    assert not pool.wants_snapshot(10**6)
    with pytest.raises(ValueError, match="A fixed pool accepts no snapshots"):
        pool.add("checkpoint:x", 1)


@pytest.mark.parametrize(
    ("curve", "priorities"),  # scores after 8 results and one draw of weight 2: .9, .5, .1
    [
        ("hard", (0.01, 0.25, 0.81)),
        ("linear", (0.1, 0.5, 0.9)),
        ("variance", (0.09, 0.25, 0.09)),
        ("even", (1, 1, 1)),
        (lambda score: score, (0.9, 0.5, 0.1)),
    ],
)
def test_priorities_follow_the_curve(curve, priorities) -> None:
    pool = PrioritisedPool(POOL, curve, floor=1e-9)
    assert pool.weights() == pytest.approx({"easy": 0.2, "even": 0.2, "hard": 0.2, "twice": 0.4})
    pool.record(RESULTS)
    assert [pool.score(name) for name in ("easy", "even", "hard")] == pytest.approx([0.9, 0.5, 0.1])
    expected = dict(zip(POOL, (*priorities, 2 * priorities[2])))
    assert pool.weights() == pytest.approx({name: w / sum(expected.values()) for name, w in expected.items()})


def test_results_fade_and_no_opponent_is_forgotten() -> None:
    pool = PrioritisedPool({"a": 1.0, "b": 1.0}, decay=0.5, floor=0.2)
    pool.record([("a", 1.0)] * 6)
    assert pool.score("a") == pytest.approx(7 / 8)
    pool.record([("a", 0.0)] * 2)
    assert pool.score("a") == pytest.approx((3 + 1) / (3 + 2 + 2))
    beaten = PrioritisedPool({"a": 1.0, "b": 3.0}, "linear", floor=0.2)
    beaten.record([("a", 1.0)] * 10_000)
    assert beaten.weights()["a"] == pytest.approx(0.05, abs=1e-12), "a fifth of its quarter"
    lost = PrioritisedPool({"a": 1.0, "b": 3.0}, lambda score: 0.0)
    assert lost.weights() == pytest.approx({"a": 0.25, "b": 0.75}), "no priorities: the pool as it was"


def test_no_share_is_below_its_floor() -> None:
    """By hand: a takes its 0.05; of the 0.95 b would have 0.0475, so it takes its 0.05; c has the 0.9 left."""
    scores = {"a": 0.9, "b": 0.8, "c": 0.7}
    curve = {0.9: 0.0, 0.8: 1 / 20, 0.7: 19 / 160}
    pool = PrioritisedPool({"a": 1, "b": 1, "c": 8}, curve.__getitem__, floor=0.5)
    pool.score = scores.__getitem__  # type: ignore[method-assign]
    assert pool.weights() == pytest.approx({"a": 0.05, "b": 0.05, "c": 0.9}, abs=1e-12)
    rng = np.random.default_rng(3)
    for _ in range(200):
        base = {str(number): float(weight) for number, weight in enumerate(rng.uniform(0.01, 1, 6))}
        floor = float(rng.choice([1e-3, 0.3, 0.9, 1.0]))
        pool = PrioritisedPool(base, lambda score: float(score > 0.5) * score**9, floor=floor)
        pool.record([(name, float(rng.integers(2))) for name in base for _ in range(9)])
        shares = pool.weights()
        assert sum(shares.values()) == pytest.approx(1.0, abs=1e-12)
        assert all(shares[name] >= floor * base[name] / sum(base.values()) * (1 - 1e-12) for name in base)


def test_a_league_grows_by_past_selves_and_keeps_its_payoffs() -> None:
    league = League({"a": 1.0, "b": 3.0}, every=10, share=0.4, most=2, curve="even")
    assert not league.wants_snapshot(9)
    assert league.wants_snapshot(10)
    league.record([("a", 1.0), ("a", 0.5), ("b", 0.0)])
    league.add("checkpoint:one", 10)
    assert not league.wants_snapshot(19)
    assert league.weights() == pytest.approx({"a": 0.15, "b": 0.45, "checkpoint:one": 0.4})
    league.record([("checkpoint:one", 1.0), ("b", 1.0)])
    league.add("checkpoint:two", 20)
    league.add("checkpoint:three", 30)
    assert league.selves == ("checkpoint:two", "checkpoint:three"), "the oldest made room"
    assert league.weights() == pytest.approx({"a": 0.15, "b": 0.45, "checkpoint:two": 0.2, "checkpoint:three": 0.2})
    assert league.payoffs() == [{"a": (0.75, 2), "b": (0.0, 1)}, {"checkpoint:one": (1.0, 1), "b": (1.0, 1)}, {}, {}]


@pytest.mark.parametrize(
    "make", [lambda: PrioritisedPool(POOL), lambda: League(POOL, every=1), lambda: FixedPool(POOL)]
)
def test_the_state_survives_json(make) -> None:
    population = make()
    assert isinstance(population, Population)
    population.record(RESULTS)
    if population.wants_snapshot(5):
        population.add("checkpoint:x", 5)
        population.record([("checkpoint:x", 0.5)])
    second_population = make()
    second_population.restore(json.loads(json.dumps(population.state())))
    assert second_population.weights() == population.weights()
    assert second_population.state() == population.state()
    assert second_population.wants_snapshot(6) == population.wants_snapshot(6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FixedPool({}), "at least one opponent"),
        (lambda: FixedPool({"a": 0.0}), "The weight of 'a' must be a positive number, got 0.0"),
        (lambda: PrioritisedPool({"a": 1.0}, "hrad"), "curve='hrad' is unknown; choose one of: hard, linear"),
        (lambda: PrioritisedPool({"a": 1.0}, decay=0.0), "must be above 0 and at most 1, got decay=0.0 and floor=0.1"),
        (lambda: League({"a": 1.0}, every=0), "every >= 1"),
    ],
)
def test_mistakes(make, message) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_curves_are_named() -> None:
    assert set(CURVES) == {"hard", "linear", "variance", "even"}
