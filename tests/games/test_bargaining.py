"""Bargaining: values of agreements, information of each seat, and concessions of opponents."""

from __future__ import annotations

import pickle

import pytest

from mage_envs.core import IllegalAction, State
from mage_envs.games.bargaining import ORDERS, TAKEN, Bargaining
from mage_envs.opponents.exact import best_response, policy_value
from mage_envs.tree import positions, roots_of


def dealt(game: Bargaining, first_values: tuple[int, ...], second_values: tuple[int, ...], *moves: str) -> State:
    state: State = game.initial_states()[3 * ORDERS.index(first_values) + ORDERS.index(second_values)][1]
    for move in moves:
        state = state.after(move)
    return state


def test_an_agreement_is_worth_what_each_values() -> None:
    state = dealt(Bargaining(), (6, 3, 1), (3, 1, 6), "take book and hat", "take book and ball", "take book", "accept")
    assert state.returns == pytest.approx((6 * 0.81, 7 * 0.81)), "two offers more than one: 0.9 x 0.9"
    assert [state.won(seat) for seat in (0, 1)] == [False, True]
    assert state.information_state(1) == "3 1 6 opp-take-book-and-hat take-book-and-ball opp-take-book accept"
    assert state.observation(0).splitlines() == [
        "Your values: book 6, hat 3, ball 1. You are the first player.",
        "Offer 1: you take book and hat and leave ball; 9 points for you.",
        "Offer 2: the other player takes book and ball and leaves hat; 2.7 points for you.",
        "Offer 3: you take book and leave hat and ball; 4.86 points for you.",
        "The other player accepts. The hand is over: you have 4.86 points.",
    ]
    assert pickle.loads(pickle.dumps(state)) is state


def test_the_last_offer_is_accepted_or_refused() -> None:
    moves = ["take everything"] * 4
    state = dealt(Bargaining(), (6, 3, 1), (6, 3, 1), *moves)
    assert state.legal_actions == ("accept", "refuse")
    assert state.after("refuse").returns == (0, 0)
    first_state = dealt(Bargaining(), (6, 3, 1), (6, 3, 1))
    assert first_state.legal_actions == tuple(TAKEN)
    assert len(TAKEN) == 7
    for text in ("accept", "refuse", "take nothing"):
        with pytest.raises(IllegalAction):
            first_state.after(text)


def test_no_seat_sees_the_values_of_the_other() -> None:
    game = Bargaining(offers=2)
    for seat in (0, 1):
        keys_by_text: dict[str, set[str]] = {}
        for node in positions([root for _, root in roots_of(game)]):
            keys_by_text.setdefault(node.state.observation(seat), set()).add(node.state.information_state(seat))
        assert all(len(keys) == 1 for keys in keys_by_text.values())
        assert len(keys_by_text) == sum(len(keys) for keys in keys_by_text.values())
    assert len({start.observation(0) for _, start in game.initial_states()}) == len(ORDERS)


def test_concession() -> None:
    """If both orders are equal, both seats want the book. A seat that concedes early gets less."""
    game = Bargaining(offers=3, discount=1)
    early, late = policy_value(game, ["bargain/conceder", "bargain/boulware"])
    assert early < late
    assert policy_value(game, ["bargain/greedy", "bargain/greedy"])[0] < policy_value(game, ["bargain/fair"] * 2)[0]
    for seat in (0, 1):
        values = [best_response(game, f"bargain/{name}", seat).value for name in ("conceder", "fair", "greedy")]
        assert values[0] > values[2]
        assert values[1] > values[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"offers": 7}, "offers=7 must be at most 6"), ({"discount": 0}, "discount=0 must be above 0")],
)
def test_bad_options(options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Bargaining(**options)
