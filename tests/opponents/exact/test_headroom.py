"""The value of adaptation and exploration: closed forms, known values, and enumeration of all pure strategies."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from mage_envs import make_game
from mage_envs.core import Game, NotEnumerable
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.opponents import OpponentPool, PoolSpec, as_pool
from mage_envs.opponents.exact import (
    BayesSolution,
    Headroom,
    Meeting,
    bayes_value,
    best_response,
    credit_weights,
    headroom,
    policy_value,
)
from mage_envs.opponents.exact.bayes import build_hands, differential_weights
from mage_envs.opponents.exact.beliefs import max_states
from mage_envs.opponents.exact.learner_hands import TooManyStates
from mage_envs.tree import Node, roots_of
from tests.opponents import small_games as small


def solve(game: Game, pool: PoolSpec) -> Headroom:
    """Return the headroom of a game if the learner has the first seat."""
    return headroom(game, pool, seat="first")


def near(values: Sequence[float], rel: float = 1e-3):
    return pytest.approx(values, abs=rel)


@pytest.mark.parametrize(
    ("game", "pool", "blind", "known_value", "myopic", "total", "last_value"),
    [
        (small.rps(3), small.make_biased_pool(0.6), 0.117, 0.400, (0.117, 0.249, 0.305), (0.117, 0.249, 0.305), 0.305),
        (small.rps(3), small.make_biased_pool(0.8), 0.343, 0.700, (0.343, 0.639, 0.685), (0.343, 0.639, 0.685), 0.685),
        (
            small.pennies(3),
            small.coins(0.8, 0.5, 0.2),
            0.160,
            0.400,
            (0.160, 0.329, 0.367),
            (0.16, 0.329, 0.367),
            0.367,
        ),
        (small.rps(4), small.reactive(1.0), 0.521, 0.750, (0.521, 0.736, 0.745), (0.521, 0.736, 0.745), 0.750),
        (small.dilemma(5), small.dilemma_pool(), 2.88, 3.24, (2.88, 2.92, 2.92), (2.72, 3.24, 3.24), 3.24),
        (small.dilemma(3), small.dilemma_pool(), 3.067, 3.4, (3.067, 3.133, 3.133), (2.867, 3.4, 3.4), 3.4),
        (small.dilemma(2), small.dilemma_pool(0.1), 3.058, 3.358, (3.058, 3.143, 3.168), (3.032, 3.269, 3.296), 3.302),
        (small.treasure(), small.treasures(), 0.5, 1.0, (0.5, 0.5, 0.5), (0.375, 0.875, 1.0), 1.0),
        (small.ultimatum(1), small.reserves(), 0.3125, 0.55, (0.312, 0.387, 0.412), None, 0.5),
        (small.ultimatum(2), small.reserves(), 0.356, 0.55, (0.356, 0.444, 0.5), None, 0.55),
    ],
    ids=["rps .6", "rps .8", "pennies", "rps reactive", "pd 5", "pd 3", "pd noise", "treasure", "ultimatum", "two"],
)
def test_known_values(game: Game, pool: OpponentPool, blind, known_value, myopic, total, last_value) -> None:
    """Computed elsewhere by two programs."""
    solution = solve(game, pool)
    assert (solution.blind, solution.known) == near((blind, known_value))
    assert solution.per_episode["myopic"] == near(myopic)
    assert total is None or solution.per_episode["sum"] == near(total)
    assert solution.per_episode["last"][-1] == near(last_value)
    assert solution.exploration == near(last_value - myopic[-1], 1.5e-3)
    assert solution.reachable == near(last_value - blind, 1.5e-3)
    assert solution.adaptation == near(known_value - blind, 1.5e-3)


def test_closed_forms() -> None:
    solution = solve(small.treasure(), small.treasures())
    assert solution.per_episode["sum"] == pytest.approx([3 / 8, 7 / 8, 1], abs=1e-12)
    one_offer, two_offers = (solve(small.ultimatum(offers), small.reserves()) for offers in (1, 2))
    offer = max(Fraction(r, 8) * Fraction(10 - r, 10) for r in range(1, 9))
    assert one_offer.blind == pytest.approx(float(offer), abs=1e-12)
    assert (
        one_offer.known
        == two_offers.known
        == pytest.approx(float(Fraction(sum(10 - r for r in range(1, 9)), 80)), abs=1e-12)
    )
    assert one_offer.per_episode["last"][-1] == pytest.approx(0.5, abs=1e-12)
    assert two_offers.per_episode["last"][-1] == pytest.approx(0.55, abs=1e-12)
    totals = [sum(solution.per_episode["sum"]) for solution in (one_offer, two_offers)]
    assert totals == pytest.approx([0.3 + 0.4 + 0.45, 0.33125 + 0.45625 + 0.5375], abs=1e-12), "shared out in many ways"
    assert one_offer.per_episode["mage"][-1] == pytest.approx(0.4875, abs=1e-12)
    dilemma = solve(small.dilemma(5), small.dilemma_pool())
    assert dilemma.per_episode["sum"] == pytest.approx([2.72, 3.24, 3.24], abs=1e-12)


@pytest.mark.parametrize(
    ("pool", "reveal", "blind", "known_value", "myopic", "total", "last_value"),
    [
        ("paper", "showdown", 0.125, 0.275, (0.125, 0.190, 0.230), (0.125, 0.189, 0.232), 0.236),
        ("paper", "always", 0.125, 0.275, (0.125, 0.197, 0.234), (0.125, 0.197, 0.234), 0.236),
        ("demo", "showdown", 0.121, 0.273, (0.121, 0.161, 0.188), (0.117, 0.168, 0.191), 0.200),
        ("demo", "always", 0.121, 0.273, (0.121, 0.162, 0.191), (0.117, 0.169, 0.194), 0.202),
    ],
)
def test_kuhn(pool: str, reveal: str, blind: float, known_value: float, myopic, total, last_value: float) -> None:
    solution = headroom(KuhnPoker(reveal), f"pool:kuhn/{pool}")
    assert (solution.blind, solution.known) == near((blind, known_value))
    assert solution.per_episode["myopic"] == near(myopic)
    assert solution.per_episode["sum"] == near(total)
    assert solution.per_episode["last"][-1] == near(last_value)


def test_success_in_kuhn_cannot_show_adaptation() -> None:
    for seat, value in (("first", 0.6167), ("second", 0.5500)):
        solution = headroom(KuhnPoker(), "pool:kuhn/paper", seat=seat, objective="success")
        assert (solution.blind, solution.known) == near((value, value), 5e-5)
        assert solution.exploration == pytest.approx(0, abs=1e-12)


class Choosing:
    """A pure policy of Kuhn Poker: bets and calls where the information state is one of `aggressive`."""

    def __init__(self, aggressive: set[str]) -> None:
        self.aggressive = aggressive

    def __call__(self, node: Node) -> str:
        return node.legal[int(node.information_state in self.aggressive)]


def play_out(node: Node, seats: Sequence[Choosing]) -> Node:
    while node.player is not None:
        node = node.children[seats[node.player](node)]
    return node


def test_betting_and_calling_win_a_hand_of_kuhn_whenever_anything_does() -> None:
    """The proof in docs/headroom.md, deal by deal: all pure plays of both sides."""
    plays = {
        seat: [
            Choosing({card + betting for card, betting in bets})
            for size in range(7)
            for bets in combinations(product("JQK", ("", "pb") if seat == 0 else ("p", "b")), size)
        ]
        for seat in (0, 1)
    }
    assert len(plays[0]) == len(plays[1]) == 64
    for seat in (0, 1):
        best = plays[seat][-1]
        for (_, deal), opponent in product(roots_of(KuhnPoker()), plays[1 - seat]):
            wins = {
                play_out(deal, (mine, opponent) if seat == 0 else (opponent, mine)).returns[seat] > 0
                for mine in plays[seat]
            }
            table = (best, opponent) if seat == 0 else (opponent, best)
            assert (play_out(deal, table).returns[seat] > 0) == max(wins)


@pytest.mark.parametrize("name", ["kuhn/nash", "kuhn/soft-scared", "kuhn/bluffer", "uniform", "cfr"])
def test_no_answer_to_a_name_wins_more_hands_of_kuhn(name: str) -> None:
    game = KuhnPoker()
    for seat in (0, 1):
        table = ["kuhn/maniac", name] if seat == 0 else [name, "kuhn/maniac"]
        best = best_response(game, name, seat, "success").value
        assert policy_value(game, table, "success")[seat] == pytest.approx(best, abs=1e-12)


def test_tictactoes_patterns_are_distinguished_within_the_hand() -> None:
    patterns = {f"tictactoe/pattern-{number}": 1 for number in range(1, 7)}
    for seat in ("first", "second"):
        solution = headroom(make_game("TicTacToe"), patterns, seat=seat, objective="success", limit=10)
        assert (solution.blind, solution.known) == pytest.approx((1, 1), abs=1e-12)


def pure_strategies(game: small.Repeated, pool: OpponentPool) -> np.ndarray:
    """Return the earnings of each pure strategy in the first and second of two episodes of two rounds (strategies, 2).

    A strategy is its action for every record of earlier answers: its own actions follow from these.
    """
    worth = {}
    for actions, answers in product(product(game.actions, repeat=4), product(game.answers, repeat=4)):
        worth[actions, answers] = np.zeros(2)
        for entry, weight in zip(pool.entries, pool.weights, strict=True):
            chance, past, paid = weight, (), np.zeros(2)
            for number, (mine, answer) in enumerate(zip(actions, answers, strict=True)):
                past = () if number == 2 else past
                chance *= entry.rule(past, mine).get(answer, 0.0)
                past = (*past, (mine, answer))
                paid[number // 2] += game.pay(mine, answer) / 2
            worth[actions, answers] += chance * paid
    records = [record for length in range(4) for record in product(game.answers, repeat=length)]
    earned = []
    for strategy_actions in product(game.actions, repeat=len(records)):
        strategy = dict(zip(records, strategy_actions, strict=True))
        answer_sequences = product(game.answers, repeat=4)
        earned.append(
            sum(worth[tuple(strategy[answers[:n]] for n in range(4)), answers] for answers in answer_sequences)
        )
    return np.array(earned)


def copier(past: small.Rounds, question: str) -> dict[str, float]:
    """Return mostly the learner's last choice, at first heads."""
    answer = past[-1][0] if past else "heads"
    return {answer: 0.85, "tails" if answer == "heads" else "heads": 0.15}


def contrary(past: small.Rounds, question: str) -> dict[str, float]:
    """Return mostly the choice that the learner did not make last, at first heads."""
    answer = "heads" if past and past[-1][0] == "tails" else "tails" if past else "heads"
    return {answer: 0.9, "tails" if answer == "heads" else "heads": 0.1}


def steady(past: small.Rounds, question: str) -> dict[str, float]:
    return {"heads": 0.3, "tails": 0.7}


def test_two_episodes_against_all_pure_strategies() -> None:
    game, pool = small.pennies(2), small.pool(copier, contrary, steady)
    earned = pure_strategies(game, pool)
    assert len(earned) == 2**15
    meeting = Meeting(game, pool, 0, episodes=2, alternate=False)
    for credit in ("sum", "last", "mage", (0.8, 0.2), (-0.5, 1.5)):
        weights = credit_weights(credit, 2)[0, 0]
        value = BayesSolution(meeting, credit).value.per_episode
        assert weights @ value == pytest.approx((earned @ weights).max(), abs=1e-12), credit
    first_best = earned[:, 0].max()
    second_best = earned[earned[:, 0] > first_best - 1e-12][:, 1].max()
    assert BayesSolution(meeting, "myopic").value.per_episode == pytest.approx([first_best, second_best], abs=1e-12)
    assert second_best < earned[:, 1].max() - 0.003, "there is something to explore for"


@pytest.mark.parametrize(
    ("game", "pool"),
    [
        (make_game("LiarsDice", sides=3), "pool:liars/soft"),
        (KuhnPoker("always"), "pool:kuhn/demo"),
        (make_game("PrisonersDilemma", rounds=4), "pool:pd/classic"),
        (make_game("TicTacToe"), {"tictactoe/pattern-1": 1, "tictactoe/pattern-3": 2}),
    ],
    ids=["liars", "kuhn", "dilemma", "patterns"],
)
def test_a_hand_as_it_is_lived_is_worth_the_best_response_to_each_opponent(game: Game, pool: str) -> None:
    lived, size = build_hands(game, pool), len(as_pool(pool).entries)
    for seat in (0, 1):
        response_values = [best_response(game, entry, seat).value for entry in as_pool(pool).entries]
        worth = lived.get(seat)[1].tree.worth(np.eye(size))[-1]
        assert worth == pytest.approx(response_values, abs=1e-12)


def test_orders_of_the_same_evidence_are_one_state() -> None:
    meeting = Meeting(small.pennies(1), small.coins(0.8, 0.5, 0.2), 0, episodes=9, alternate=False)
    assert [stage.size for stage in meeting.stages] == list(range(1, 10)), "one per number of heads"
    [groups] = zip(*(stage.groups for stage in meeting.stages), strict=True)
    assert meeting.states == max_states([group.hand for group in groups]) == 45
    for group in groups:
        assert group.beliefs.sum(axis=0) == pytest.approx(1, abs=1e-12)


def test_weights_of_credit() -> None:
    assert differential_weights(3, 0.6) == pytest.approx([0.4, 0.24, 0.36])
    assert differential_weights(3, 1.0) == (0, 0, 1)
    pool = small.reserves()
    assert bayes_value(small.ultimatum(1), pool, credit=differential_weights(3, 0.6), seat="first").per_episode == (
        pytest.approx(bayes_value(small.ultimatum(1), pool, credit="mage", gt=0.6, seat="first").per_episode)
    )
    for weights, message in (
        ((0.5, 0.4, 0.2), r"^The weights must sum to 1, got \(0.5, 0.4, 0.2\), which sum to 1.1\.$"),
        ((0.5, 0.5), r"^The weights must be 3 numbers, one for each episode"),
    ):
        with pytest.raises(ValueError, match=message):
            headroom(KuhnPoker(), "pool:kuhn/demo", weights=weights)
    with pytest.raises(ValueError, match="credit='greedy' is unknown; choose myopic, sum, mage, last"):
        credit_weights("greedy", 3)  # type: ignore[arg-type]


def test_fixed_seats_are_the_mean_of_both() -> None:
    fixed, first_seat, second_seat = (
        headroom(KuhnPoker(), "pool:kuhn/demo", seat=s) for s in ("fixed", "first", "second")
    )
    for name in ("myopic", "last"):
        seat_mean = np.mean([first_seat.per_episode[name], second_seat.per_episode[name]], axis=0)
        assert fixed.per_episode[name] == pytest.approx(seat_mean, abs=1e-12)
    with pytest.raises(ValueError, match="seat='third' is unknown"):
        headroom(KuhnPoker(), "pool:kuhn/demo", seat="third")


def test_opponents_that_change_are_computed_as_they_play_in_each_episode() -> None:
    """Oracles that were computed by another program."""
    rock_first, maniac_first = "switch:kuhn/rock,kuhn/maniac,1", "switch:kuhn/maniac,kuhn/rock,1"
    solution = headroom(KuhnPoker(), rock_first)
    assert solution.known_per_episode == solution.blind_per_episode == near((0.25, 1 / 3, 1 / 3), 1e-12)
    assert solution.per_episode["last"] == near((0.25, 1 / 3, 1 / 3), 1e-12)
    mixture = headroom(KuhnPoker(), {rock_first: 1, maniac_first: 1})
    assert mixture.per_episode["myopic"] == near((0.167, 0.229, 0.271))
    assert mixture.per_episode["last"][-1] == near(0.278)
    assert mixture.exploration == near(0.007)
    assert mixture.reachable == near(0.278 - 0.167, 1.5e-3)
    late = headroom(KuhnPoker(), {"switch:kuhn/rock,kuhn/maniac,3": 1, "switch:kuhn/maniac,kuhn/rock,3": 1})
    alike = headroom(KuhnPoker(), {"kuhn/rock": 1, "kuhn/maniac": 1})
    assert (late.per_episode, late.states) == (alike.per_episode, alike.states), "nothing changes within the episodes"


def test_what_has_too_many_states_still_has_its_first_two_values() -> None:
    solution = headroom(KuhnPoker(), "pool:kuhn/demo", limit=100)
    assert solution.per_episode == {}
    assert solution.exploration is None
    assert solution.reachable is None
    assert solution.states == 0
    assert "more than 100 states of belief within 3 hands" in solution.unsolved
    assert solution.adaptation == near(0.152)
    with pytest.raises(TooManyStates):
        bayes_value(KuhnPoker(), "pool:kuhn/demo", limit=100)
    with pytest.raises(NotEnumerable):
        headroom(make_game("ConnectFour"), "uniform")
    for bad in ({"episodes": 0}, {"hands": 0}):
        with pytest.raises(ValueError, match="at least one episode of one hand"):
            headroom(KuhnPoker(), "pool:kuhn/demo", **bad)
