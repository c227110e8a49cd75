"""A hand by itself: every seat open, stopped hands, the information of their states."""

from __future__ import annotations

import copy
import pickle

import pytest

from mage_envs import IllegalAction
from mage_envs.core import BY_FORFEIT, BY_THE_RULES, BY_TIMEOUT
from mage_envs.hand import END_NOTICES, Hand, TruncatedState, open_table
from mage_envs.registry import make_game


def dealt(name="KuhnPoker", **kwargs):
    hand = Hand(make_game(name), **kwargs)
    hand.deal(open_table(hand.game.spec.players))
    return hand


def test_a_hand_that_the_rules_end_is_worth_what_its_last_state_returns():
    hand = dealt()
    assert [hand.answer("bet"), hand.answer("fold")] == [None, None]
    assert hand.over
    assert hand.state.returns == (1.0, -1.0)
    for seat, value in enumerate((1.0, -1.0)):
        result = hand.state.result(seat)
        assert (result.value, result.seat, result.ended_by) == (value, seat, BY_THE_RULES)
        assert result.observation == hand.state.observation(seat)
        assert result.information_state == hand.state.information_state(seat) != ""


def test_a_hand_that_times_out_is_worth_the_timeout_value_and_shows_where_it_was():
    hand = dealt(max_turns=1, timeout_value=-0.5)
    state_before = hand.state
    assert hand.answer("raise") is not None
    assert hand.over
    state = hand.state
    assert isinstance(state, TruncatedState)
    assert state.at is state_before
    assert (state.player, state.legal_actions, state.returns) == (None, (), (-0.5, -0.5))
    assert state.result(1) == (-0.5, 1, BY_TIMEOUT, None, END_NOTICES[BY_TIMEOUT], "", state_before.observation(1))
    assert state.info(0)["legal_actions"] == ()
    assert state.info(0)["information_state"] == state_before.information_state(0)
    assert state.picture(0) == state_before.picture(0)
    with pytest.raises(IllegalAction):
        state.after("bet")


def test_only_the_seat_that_forfeits_gets_the_worst_return():
    hand = dealt(forfeits=True)
    hand.answer("bet")
    state_before = hand.state
    hand.answer("raise")
    assert hand.over
    assert hand.state.returns == (0.0, -2.0)
    assert hand.state.result(1) == (-2.0, 1, BY_FORFEIT, None, END_NOTICES[BY_FORFEIT], "", state_before.observation(1))


def test_a_game_that_pays_on_the_way_keeps_what_it_paid():
    hand = dealt("Sokoban", max_turns=3, timeout_value=-7.0)
    for _ in range(3):
        hand.answer("up")
    paid = hand.state.at.returns
    assert hand.state.returns == paid != (-7.0,)
    assert hand.state.result(0).value == paid[0]
    assert hand.state.metrics() == hand.state.at.metrics()
    assert hand.state.task_id == hand.state.at.task_id
    assert hand.state.category == hand.state.at.category


def test_a_stopped_hand_is_copied():
    hand = dealt(max_turns=1)
    hand.answer("raise")
    for hand_copy in (copy.deepcopy(hand), pickle.loads(pickle.dumps(hand))):
        assert hand_copy.state.result(0) == hand.state.result(0)
        assert hand_copy.state.at is hand.state.at  # shared
        hand_copy.deal(open_table(2))
        assert not hand_copy.over
