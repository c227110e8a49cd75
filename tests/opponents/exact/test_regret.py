"""Decision regret: over all that can happen it accounts for every chip."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pytest

from mage_envs.core import Policy
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.hand import Hand, Seat, Table
from mage_envs.opponents import OpponentPool, TabularPolicy, as_pool, make_opponent
from mage_envs.opponents.exact import BayesSolution, Meeting, NotExact, bayes_value, best_nonadaptive
from mage_envs.opponents.exact.bayes import CreditName
from mage_envs.opponents.exact.regret import DecisionValues
from mage_envs.opponents.exact.rest import OwnChoice, PlayedHand, Rest
from mage_envs.opponents.exact.tree import in_episode
from mage_envs.random.streams import Streams
from mage_envs.tree import Node, roots_of

POOL = as_pool("pool:kuhn/demo")
KUHN = KuhnPoker()


class Way(NamedTuple):
    """One way for a hand to go, with its probability against one opponent."""

    chance: float
    hand: PlayedHand


def player(seed: int) -> TabularPolicy:
    """Random probabilities at every information state."""
    rng = np.random.default_rng(seed)
    table: dict[str, Mapping[str, float]] = {}
    for card in "JQK":
        for betting, actions in (("", "check bet"), ("p", "check bet"), ("b", "fold call"), ("pb", "fold call")):
            share = float(rng.random())
            first_action, second_action = actions.split()
            table[card + betting] = {first_action: share, second_action: 1 - share}
    return TabularPolicy(table)


def ways(opponent: Policy, mine: Policy, seat: int, with_probabilities: bool) -> Iterator[Way]:
    """Yield all ways that a hand of Kuhn Poker can go. The player states its probabilities if `with_probabilities`."""

    def follow(node: Node, chance: float, choices: tuple[OwnChoice, ...]) -> Iterator[Way]:
        if node.player is None:
            yield Way(chance, PlayedHand(seat, choices, node.returns[seat], node.view(seat)))
            return
        turn = node.turn()
        row = (mine if node.player == seat else opponent).distribution(turn)
        for action, share in row.items():
            choice = OwnChoice(turn.information_state, action, row if with_probabilities else None)
            next_choices = (*choices, choice) if node.player == seat else choices
            yield from follow(node.children[action], chance * share, next_choices)

    for chance, root in roots_of(KUHN):
        yield from follow(root, chance, ())


@pytest.mark.parametrize("with_probabilities", [True, False])
def test_earned_and_lost_value_add_up_to_the_available_value(with_probabilities: bool) -> None:
    """Two hands, all ways, all opponents: the adjusted score has the mean of the chips, exactly, and varies less."""
    values = DecisionValues(KUHN, POOL)
    mine = player(1)
    totals, squares = np.zeros((2, 3)), np.zeros((2, 2))
    for name, weight in zip(POOL.entries, POOL.weights, strict=True):
        opponent = make_opponent(name, KUHN)
        second_ways = list(ways(opponent, mine, 1, with_probabilities))
        for chance, first_hand in ways(opponent, mine, 0, with_probabilities):
            for second_chance, second_hand in second_ways:
                for k, judgement in enumerate(values.judge([first_hand, second_hand])):
                    part = weight * chance * second_chance
                    totals[k] += part * np.array([judgement.value, judgement.adjusted, sum(judgement.regrets)])
                    squares[k] += part * np.array([judgement.value, judgement.adjusted]) ** 2
                    assert min(judgement.regrets) > -1e-12
                    assert judgement.available == pytest.approx(judgement.adjusted + sum(judgement.regrets))
    for k in (0, 1):
        assert totals[k, 0] == pytest.approx(totals[k, 1], abs=1e-12)
    best = [best_nonadaptive(KUHN, POOL, seat).value for seat in (0, 1)]
    assert totals[0, 0] + totals[0, 2] == pytest.approx(best[0], abs=1e-12)
    assert totals[1, 0] + totals[1, 2] > best[1] + 0.01, "the second hand is played with what the first one taught"
    variances = squares - totals[:, :2] ** 2
    assert (variances[:, 1] < variances[:, 0] / 2).all()


def meta_episodes(mine: Policy, count: int) -> Iterator[list[PlayedHand]]:
    """Three hands of Kuhn Poker each against one opponent drawn from the pool, in alternate seats, really played."""
    hand = Hand(KUHN)
    tables = [
        [
            Table([None if position == seat else Seat(make_opponent(name, KUHN), name, {}) for position in (0, 1)])
            for seat in (0, 1)
        ]
        for name in POOL.entries
    ]
    opponent_indices = np.random.default_rng(5).choice(len(tables), p=POOL.weights, size=count)
    for number, opponent in enumerate(opponent_indices):
        streams, hands = Streams(number), []
        for episode in range(3):
            seat = (number + episode) % 2
            hand.begin_episode(streams, episode=episode)
            hand.deal(tables[opponent][seat])
            choices = []
            while not hand.over:
                turn = hand.turn(seat)
                row = mine.distribution(turn)
                first_action, second_action = row
                choices.append(
                    OwnChoice(
                        turn.information_state,
                        first_action if hand.draw(seat) < row[first_action] else second_action,
                        row,
                    )
                )
                hand.play(choices[-1].action)
            result = hand.state.result(seat)
            hands.append(PlayedHand(seat, choices, result.value, result.observation))
        yield hands


def test_in_ten_thousand_meta_episodes_the_adjusted_score_is_the_chips_without_the_luck() -> None:
    """Means differ by no more than the spread of their pairs, and are close to the exact ones."""
    values, mine = DecisionValues(KUHN, POOL), player(1)
    scores = np.array(
        [
            [(judgement.value, judgement.adjusted, sum(judgement.regrets)) for judgement in values.judge(hands)]
            for hands in meta_episodes(mine, 10_000)
        ]
    )
    raw, adjusted, lost = np.moveaxis(scores, 2, 0)  # (meta-episodes, episodes) each
    exact, squares = np.zeros(2), np.zeros(2)
    for name, weight in zip(POOL.entries, POOL.weights, strict=True):
        opponent = make_opponent(name, KUHN)
        for way in (way for seat in (0, 1) for way in ways(opponent, mine, seat, True)):
            (judgement,) = values.judge([way.hand])
            exact += weight / 2 * way.chance * np.array([judgement.value, judgement.adjusted])
            squares += weight / 2 * way.chance * np.array([judgement.value, judgement.adjusted]) ** 2

    def is_mean(samples: np.ndarray, mean: float) -> bool:
        """Return True if `mean` is inside each interval, of 99.9% because there are eight of them."""
        return bool((abs(samples.mean(axis=0) - mean) < 3.29 * samples.std(axis=0) / len(samples) ** 0.5).all())

    assert is_mean(raw - adjusted, 0.0)
    assert is_mean((raw - adjusted).sum(axis=1), 0.0)
    assert is_mean(adjusted, exact[0]), "it earns the same in each episode"
    assert is_mean((raw + lost)[:, 0], bayes_value(KUHN, POOL, credit="myopic").per_episode[0])
    factor = np.sqrt(np.divide(*(squares - exact**2)))
    assert factor > 2
    assert raw[:, 0].std() / adjusted[:, 0].std() == pytest.approx(factor, rel=0.03)


SWITCHING = as_pool({"switch:kuhn/rock,kuhn/maniac,1": 1, "switch:kuhn/maniac,kuhn/rock,1": 1})
"""Two opponents that change between the episodes."""


@pytest.mark.parametrize("pool", [as_pool("pool:kuhn/paper"), SWITCHING], ids=["paper", "switching"])
@pytest.mark.parametrize("credit", ["sum", "mage", "last", (0.7, 0.3)])
def test_over_a_meta_episode_payment_and_regret_are_the_solved_policys_value(
    credit: CreditName | list[float], pool: OpponentPool
) -> None:
    """Over two hands, all ways and all opponents, the credit's payment and all regrets add up to its optimum."""
    remainder = Rest(KUHN, pool, episodes=2, credit=credit)
    values = DecisionValues(KUHN, pool, rest=remainder)
    mine = player(2)
    paid = lost = 0.0
    for name, weight in zip(pool.entries, pool.weights, strict=True):
        opponent = make_opponent(name, KUHN)
        next_opponent = in_episode(opponent, 1)
        second = [
            way._replace(hand=way.hand._replace(position=1, episode=1)) for way in ways(next_opponent, mine, 1, True)
        ]
        for chance, first_hand in ways(opponent, mine, 0, True):
            for second_chance, second_hand in second:
                judgements = values.judge([first_hand, second_hand])
                part = weight * chance * second_chance
                paid += part * (remainder.weights @ [judgement.value for judgement in judgements])
                lost += part * sum(sum(judgement.regrets) for judgement in judgements)
                assert min(*judgements[0].regrets, *judgements[1].regrets) > -1e-12
    best = BayesSolution(Meeting(KUHN, pool, 0, episodes=2), credit).value.per_episode
    assert paid + lost == pytest.approx(remainder.weights @ best, abs=1e-12)
    assert lost > 0.05


def test_after_a_lost_hand_the_rest_is_solved_again() -> None:
    """It teaches nothing, and leaves a belief that legal play does not lead to."""
    for skipped in (0, 1):
        remainder = Rest(KUHN, POOL, episodes=2, hands=2, credit="mage")
        values = DecisionValues(KUHN, POOL, rest=remainder)
        lost = PlayedHand(1, [], -2.0, by_rules=False, skipped=skipped)
        then = PlayedHand(skipped, [OwnChoice("K", "bet") if skipped == 0 else OwnChoice("Kb", "call")], 1.0)
        first_judgement, second_judgement = values.judge([lost, then._replace(position=1 + skipped)])
        assert first_judgement.available - sum(first_judgement.regrets) == pytest.approx(
            0.4 * -2 + second_judgement.available, abs=1e-12
        )
        meeting = Meeting(KUHN, POOL, 1, episodes=2, hands=2)
        assert first_judgement.available == pytest.approx(
            remainder.weights @ BayesSolution(meeting, "mage").value.per_episode
        )
    with pytest.raises(ValueError, match="Single-episode credit has no rest"):
        Rest(KUHN, POOL, episodes=2, credit="myopic")


def test_a_hand_that_does_not_end_by_the_rules_counts_as_it_is_paid() -> None:
    values = DecisionValues(KUHN, "kuhn/rock")
    (judgement,) = values.judge([PlayedHand(0, [], -2.0, by_rules=False)])
    assert judgement.available == pytest.approx(1 / 6)
    assert judgement.adjusted == pytest.approx(-2.0)
    late = PlayedHand(0, [OwnChoice("K", "check")], -2.0, by_rules=False)
    (judgement,) = values.judge([late])
    assert judgement.adjusted == pytest.approx(judgement.available - judgement.regrets[0] - judgement.regrets[1])


def test_impossible_histories_are_reported() -> None:
    values = DecisionValues(KUHN, {"kuhn/conservative": 1, "kuhn/intermediate": 1})
    with pytest.raises(ValueError, match="'raise' at 'K' is not a decision of seat 0 after the earlier moves"):
        values.judge([PlayedHand(0, [OwnChoice("K", "raise")], 1.0)])
    with pytest.raises(ValueError, match="'Kpb' is not a decision of seat 0 after"):
        values.judge([PlayedHand(0, [OwnChoice("Kpb", "call")], 1.0)])
    with pytest.raises(ValueError, match="cannot be played against this pool"):
        values.judge([PlayedHand(0, [OwnChoice("K", "check")], 1.0, "A board.")])
    with pytest.raises(NotExact):
        DecisionValues(KUHN, "ismcts:10")
