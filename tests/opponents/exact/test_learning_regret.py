"""Regrets of decisions against opponents that learn or change: earned and lost value add up, over all ways to play."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import NamedTuple

import numpy as np
import pytest

from mage_envs.core import Policy, Turn
from mage_envs.opponents import as_pool, make_opponent
from mage_envs.opponents.exact import BayesSolution, Meeting, bayes_value
from mage_envs.opponents.exact.decomposition import OwnBelief, decompose
from mage_envs.opponents.exact.modes import end_turn
from mage_envs.opponents.exact.regret import DecisionValues
from mage_envs.opponents.exact.rest import OwnChoice, PlayedHand, Rest
from mage_envs.opponents.learning.policy import LearningPolicy
from mage_envs.tree import Node, roots_of
from tests.opponents.exact.test_regret import KUHN, player

HAZARD = 0.25
CHANGING = f"hazard:kuhn/maniac,kuhn/learns-to-call,{HAZARD}"
POOL = as_pool({"kuhn/learns-to-call": 0.5, "trapper:1": 0.25, CHANGING: 0.25})
PARTS = ("kuhn/maniac", "kuhn/learns-to-call")
EPISODES = 2


class Way(NamedTuple):
    """One way for a hand to go against an opponent with a memory."""

    chance: float
    hand: PlayedHand
    end: Node


def ways(opponent: Policy, memory: Hashable, mine: Policy, seat: int, episode: int) -> Iterator[Way]:
    """Yield all ways that a hand of an episode can go."""

    def row_of(turn: Turn) -> dict[str, float]:
        at_episode = turn._replace(episode=episode)
        if isinstance(opponent, LearningPolicy):
            return dict(opponent.distribution_given(at_episode, memory))
        return dict(opponent.distribution(at_episode))

    def follow(node: Node, chance: float, choices: tuple[OwnChoice, ...]) -> Iterator[Way]:
        if node.player is None:
            hand = PlayedHand(
                seat, choices, node.returns[seat], ending=node.view(seat), episode=episode, position=episode
            )
            yield Way(chance, hand, node)
            return
        turn = node.turn()
        row = mine.distribution(turn) if node.player == seat else row_of(turn)
        for action, share in row.items():
            choice = OwnChoice(turn.information_state, action)
            next_choices = (*choices, choice) if node.player == seat else choices
            yield from follow(node.children[action], chance * share, next_choices)

    for chance, root in roots_of(KUHN):
        yield from follow(root, chance, ())


def meta_episodes(name: str, mine: Policy) -> Iterator[tuple[float, list[PlayedHand]]]:
    """Yield all meta-episodes of two hands against an opponent of the pool, with their probabilities."""
    parts = [make_opponent(part, KUHN) for part in (PARTS if name == CHANGING else (name,))]
    # A new draw may return the same part. An opponent with one part never changes.
    changes = HAZARD * (1 - 1 / len(parts))
    for number, first in enumerate(parts):
        starts = [part.start if isinstance(part, LearningPolicy) else () for part in parts]
        for way in ways(first, starts[number], mine, 0, 0):
            turn = end_turn(way.end, 1, 0)
            for next_number, second in enumerate(parts):
                switch = 1 - changes if next_number == number else changes
                memory = starts[next_number]
                if isinstance(second, LearningPolicy):
                    memory = second.step(memory, turn)
                for next_way in ways(second, memory, mine, 1, 1):
                    yield way.chance * next_way.chance * switch / len(parts), [way.hand, next_way.hand]


@pytest.fixture(scope="module")
def rest() -> Rest:
    return Rest(KUHN, POOL, episodes=EPISODES)


def test_values_and_regrets_add_up(rest: Rest) -> None:
    whole, hand_alone, mine = DecisionValues(KUHN, POOL, rest), DecisionValues(KUHN, POOL), player(4)
    earned = adjusted = known_adjusted = 0.0
    parts = np.zeros(4)
    for name, weight in zip(POOL.entries, POOL.weights, strict=True):
        for chance, hands in meta_episodes(str(name), mine):
            share = weight * chance
            judged = whole.judge(hands)
            earned += share * sum(hand.value for hand in hands)
            adjusted += share * (judged[0].available - sum(sum(hand.regrets) for hand in judged))
            assert min(regret for hand in judged for regret in hand.regrets) > -1e-9
            known_adjusted += share * sum(hand.adjusted for hand in hand_alone.judge(hands, str(name)))
            answers = [OwnBelief(was_asked=False), OwnBelief((0.2, 0.5, 0.3))]
            for row in decompose(hand_alone, whole, hands, answers):
                for decision in row.decisions:
                    assert decision.inference is not None
                    assert decision.decision is not None
                    assert decision.gap is not None
                    assert decision.gap > -1e-9
                    parts += share * np.array(
                        [decision.regret, decision.inference, decision.exploration, decision.decision]
                    )
    assert adjusted == pytest.approx(earned, abs=1e-9)
    assert known_adjusted == pytest.approx(earned, abs=1e-9)
    assert parts[0] == pytest.approx(parts[1:].sum(), abs=1e-9)


def test_the_available_value_is_that_of_the_best_learner(rest: Rest) -> None:
    values = DecisionValues(KUHN, POOL, rest)
    _, hands = next(meta_episodes("trapper:1", player(1)))
    first_seats = [Meeting(KUHN, POOL, seat0, episodes=EPISODES) for seat0 in (0, 1)]
    totals = [BayesSolution(meeting).value.total for meeting in first_seats]
    assert values.judge(hands)[0].available == pytest.approx(totals[0], abs=1e-12)
    assert sum(totals) / 2 == pytest.approx(bayes_value(KUHN, POOL, episodes=EPISODES).total, abs=1e-12)


def test_a_hand_without_its_ending_is_refused_before_another_one(rest: Rest) -> None:
    _, hands = next(meta_episodes("trapper:1", player(1)))
    values = DecisionValues(KUHN, POOL, rest)
    assert values.judge([hands[0], hands[1]._replace(ending=None)])
    with pytest.raises(ValueError, match=r"^Against opponents that learn, regrets require the player's last view"):
        values.judge([hands[0]._replace(ending=None), hands[1]])
