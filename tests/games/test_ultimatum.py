"""The ultimatum game: payments and observations."""

from __future__ import annotations

import pickle

import gymnasium as gym
import numpy as np
import pytest

import mage_envs  # noqa: F401  (registers the ids)
from mage_envs.core import IllegalAction, State
from mage_envs.games.ultimatum import Ultimatum
from mage_envs.opponents import make_opponent
from mage_envs.opponents.exact import policy_value
from mage_envs.tree import positions, roots_of
from tests.mage_envs.test_words import play_texts

RNG = np.random.default_rng(0)


def after(state: State, *actions: str) -> State:
    for action in actions:
        state = state.after(action)
    return state


@pytest.mark.parametrize("offered", range(1, 11))
def test_an_accepted_offer_is_shared_and_a_refused_one_is_lost(offered: int) -> None:
    start = Ultimatum().initial_state(RNG)
    assert after(start, f"offer {offered}", "accept").returns == pytest.approx((1 - offered / 10, offered / 10))
    assert after(start, str(offered), "refuse").returns == (0, 0)
    assert after(start, f"offer {offered}", "accept").won(0) == (offered <= 5)


def test_two_pies_are_shown_and_paid_one_by_one() -> None:
    state = after(Ultimatum(offers=2).initial_state(RNG), "2", "refuse", "4")
    assert state.observation(1).splitlines() == [
        "Pie 1 of 2: The other player offered 2 slices of 10; you refuse: nobody gets anything.",
        "Pie 2 of 2: The other player offers you 4 slices of 10, and would keep 6. Do you accept or refuse?",
    ]
    assert state.information_state(1) == "offer-2 refuse offer-4"
    over = state.after("accept")
    assert over.returns == pytest.approx((0.3, 0.2))
    assert over.observation(0).endswith("The hand is over: you have 6 of 20 slices.")
    assert pickle.loads(pickle.dumps(over)) is over


def test_the_tree_has_as_many_histories_as_offers_and_answers() -> None:
    ends = [node for node in positions([r for _, r in roots_of(Ultimatum(offers=2))]) if node.player is None]
    assert len(ends) == 20 * 20
    assert {node.state.returns[0] + node.state.returns[1] for node in ends} == {0, 0.5, 1}


@pytest.mark.parametrize("text", ["", "offer 0", "offer 11", "0", "offer", "accept", "offer 3.5"])
def test_what_is_no_offer(text: str) -> None:
    with pytest.raises(IllegalAction, match="choose one of: offer 1, offer 2"):
        Ultimatum().initial_state(RNG).after(text)


def test_prices() -> None:
    game = Ultimatum()
    for price in range(1, 9):
        stingy = policy_value(game, [f"ultimatum/reserve:{price - 1}", f"ultimatum/reserve:{price}"])
        assert stingy == ((0, 0) if price > 1 else pytest.approx((0.9, 0.1)))
        same = policy_value(game, [f"ultimatum/reserve:{price}"] * 2)
        assert same == pytest.approx((1 - price / 10, price / 10))
    soft = policy_value(game, ["ultimatum/reserve:2", "ultimatum/soft-reserve:3,.25"])
    assert soft == pytest.approx((0.25 * 0.8, 0.25 * 0.2))
    with pytest.raises(ValueError, match=r"^Opponent 'ultimatum/reserve': price must be 0 or more"):
        make_opponent("ultimatum/reserve:-1", game)


def test_the_learner_offers() -> None:
    env = gym.make("mage/Ultimatum-Meta-v0")
    assert {env.reset(seed=seed)[1]["seat"] for seed in range(8)} == {0}


@pytest.mark.parametrize(("options", "message"), [({"offers": 0}, "offers=0 must be"), ({"pie": 101}, "at most 100")])
def test_bad_options(options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Ultimatum(**options)


def test_a_conversation_in_words() -> None:
    texts = play_texts("Ultimatum", ["offer 2", "offer 5"], opponent="ultimatum/reserve:4")
    assert texts[:2] == ["episode 1 first", "refuse +0 episode 2 first"]
