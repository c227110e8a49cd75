"""Values against policies whose moves were sampled, and policies against which there are none."""

from __future__ import annotations

import numpy as np
import pytest

from mage_envs.core import Policy, Turn
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.opponents import OpponentPool, TabularPolicy, make_opponent
from mage_envs.opponents.exact import NotExact, bayes_value, best_response, headroom
from mage_envs.opponents.exact.bayes import build_hands
from mage_envs.opponents.exact.sampled import SampledMoves, jackknife_error
from mage_envs.opponents.exact.single_hands import SingleHands
from mage_envs.opponents.switching import switching

UNKNOWN = {
    f"{card}{betting}": {"check": 0.7, "bet": 0.3} if betting in ("", "p") else {"fold": 0.3, "call": 0.7}
    for card in "JQK"
    for betting in ("", "p", "b", "pb")
}
"""The probabilities of `Unknown`."""


class Unknown:
    """Bets with probability .3 and calls with .7, and does not say so."""

    def reset(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def act(self, turn) -> str:
        return turn.legal_actions[int(self._rng.random() < (0.7 if "call" in turn.legal_actions else 0.3))]


def test_sampled_moves_give_an_estimate_with_its_error() -> None:
    game = KuhnPoker()
    exact = headroom(game, {"kuhn/rock": 1, TabularPolicy(UNKNOWN): 1})
    pool = {"kuhn/rock": 1, Unknown(): 1}
    with pytest.raises(NotExact, match=r"'Unknown' has no distribution.*Sampled moves give an estimate: samples=20"):
        headroom(game, pool)
    estimate = headroom(game, pool, samples=60)
    assert exact.bounds == {}
    assert set(estimate.bounds) == {"blind", "known", "adaptation"}
    for name in ("blind", "known", "adaptation"):
        ((low, high),) = set(estimate.bounds[name])
        assert low < getattr(estimate, name) < high < low + 0.06
    assert estimate.reachable is None
    assert estimate.exploration is None
    second_estimate = headroom(game, pool, samples=60)
    assert (second_estimate.blind, second_estimate.known, second_estimate.bounds) == (
        estimate.blind,
        estimate.known,
        estimate.bounds,
    )
    with pytest.raises(ValueError, match="at least 10 times in each state, got 3"):
        SampledMoves(game, Unknown(), 3, np.random.default_rng(0))


class Silent:
    """Plays as another policy, whose probabilities it does not say."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def reset(self, rng: np.random.Generator) -> None:
        self._policy.reset(rng)

    def act(self, turn: Turn) -> str:
        return self._policy.act(turn)


UNSAID = {
    "between": ({"kuhn/rock": 1.0, TabularPolicy(UNKNOWN): 1.0}, {"kuhn/rock": 1.0, Unknown(): 1.0}),
    # Against these nearly all play is equally good, so that a best response to a sample lives of its luck alone.
    "equilibria": tuple(
        {wrap(make_opponent(name, KuhnPoker())): 1.0 for name in ("kuhn/nash", "kuhn/nash:0.3")}
        for wrap in (lambda policy: policy, Silent)
    ),
}
"""Pools with known probabilities, and the same ones without."""


@pytest.mark.more
@pytest.mark.parametrize("seeds", [50, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", list(UNSAID))
def test_intervals_of_sampled_moves_contain_the_truth(name: str, seeds: int) -> None:
    """At least 93% of the seeds; evaluated on the moves that chose it, play seems to earn more than it does."""
    known_pool, unsaid_pool = UNSAID[name]
    game, pool, exact = KuhnPoker(), OpponentPool(unsaid_pool), headroom(KuhnPoker(), known_pool, episodes=1)
    hits = dict.fromkeys(("blind", "known", "adaptation"), 0)
    for seed in range(seeds):
        single = SingleHands(game=game, pool=pool, seats=(0, 1), objective="returns", samples=20, seed=seed)
        bounds = single.values().bounds
        for measure in hits:
            low, high = bounds[measure]
            hits[measure] += low - 1e-12 <= getattr(exact, measure) <= high + 1e-12
            assert high - low < 0.2
    assert min(hits.values()) >= 0.93 * seeds, hits


def test_a_switch_is_sampled_part_by_part() -> None:
    estimate = headroom(KuhnPoker(), switching(make_opponent("kuhn/rock", KuhnPoker()), Unknown(), 1), samples=40)
    assert estimate.bounds["known"][0] == pytest.approx((0.25, 0.25), abs=1e-12), "the first part is known"
    low, high = estimate.bounds["known"][1]
    truth = headroom(KuhnPoker(), TabularPolicy(UNKNOWN), episodes=1).known
    assert low < truth < high < low + 0.1
    assert estimate.bounds["known"][2] == (low, high)


class Watching(TabularPolicy):
    """Has probabilities, and sees results."""

    def on_hand_end(self, turn: Turn) -> None: ...


@pytest.mark.parametrize("samples", [0, 20])
@pytest.mark.parametrize("name", ["counting", "myopic:kuhn/demo,3,1", "switch:kuhn/rock,counting,1", "Watching"])
def test_policies_that_remember_are_refused(name: str, samples: int) -> None:
    opponent = Watching(UNKNOWN) if name == "Watching" else name
    with pytest.raises(NotExact, match=rf"^Opponent '{name}' remembers earlier hands .*: there are no exact values"):
        headroom(KuhnPoker(), opponent, samples=samples)
    for solve in (bayes_value, build_hands):
        with pytest.raises(NotExact, match="remembers earlier hands"):
            solve(KuhnPoker(), opponent)
    with pytest.raises(NotExact, match="remembers earlier hands"):
        best_response(KuhnPoker(), opponent, 0)


def test_the_jackknife_of_a_mean_is_its_standard_error() -> None:
    values = np.array([1.0, 4.0, 2.0, 8.0, 5.0])
    without = [float(np.delete(values, i).mean()) for i in range(5)]
    assert jackknife_error(without) == pytest.approx(values.std(ddof=1) / 5**0.5)
