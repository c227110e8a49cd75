"""Exact value of a given learner against a pool: the best plan without memory, and learners that are policies.

A policy must be a `LearningPolicy`, or have no memory at all. The method is one forward pass over the states of a
meta-episode: the memories of the opponents, the memory of the learner, and the probability of both with each opponent.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from mage_envs.core import Game, Turn
from mage_envs.opponents.exact.bayes import BayesSolution
from mage_envs.opponents.exact.learner_hands import Branch, Floats, LearnerHand, TooManyStates
from mage_envs.opponents.exact.modes import Memories, end_turn
from mage_envs.opponents.exact.plans import LearnerHands
from mage_envs.opponents.learning.policy import LearningPolicy
from mage_envs.tree import tree_of

PLANS = 20_000
"""Maximum number of plans of an episode that are compared."""

Plan = Mapping[str, str]
"""Map from each information state that one's own actions allow to the action."""
Reach = Callable[[Hashable, int, LearnerHand], Floats]
"""Function from the learner's memory, the index of the hand and the hand to the learner's own probability of each
ending, (M,)."""
Advance = Callable[[Hashable, int, LearnerHand, int], Hashable]
"""Function from the learner's memory, the index of the hand, the hand and its ending to the memory after it."""


class Schedule(NamedTuple):
    """The hands of a meta-episode."""

    seats: Sequence[int]
    """Learner's seat in each hand."""
    episodes: Sequence[int]
    """Index of the episode of each hand."""

    @classmethod
    def of(cls, players: int, seat0: int, episodes: int, hands: int, alternate: bool) -> Schedule:
        """Return the hands of a meta-episode.

        Args:
            players: Number of seats of the game.
            seat0: Learner's seat in the first hand.
            hands: Hands per episode.
            alternate: True if the seat changes from hand to hand.
        """
        numbers = range(episodes * hands)
        return cls([(seat0 + j) % players if alternate else seat0 for j in numbers], [j // hands for j in numbers])


def follow(
    hands: LearnerHands, schedule: Schedule, start: Hashable, reach: Reach, advance: Advance
) -> tuple[float, ...]:
    """Return the expected payoff of a learner in each episode, summed over its hands.

    Args:
        hands: Hands of the game and pool.
        schedule: Hands of the meta-episode.
        start: Memory of the learner before the first hand.
        reach: Learner's play of a hand.
        advance: Learner's memory after a hand.
    """
    modes = hands.modes
    values = [0.0] * (schedule.episodes[-1] + 1)
    weights: dict[tuple[Memories, Hashable], Floats] = {(modes.start, start): np.array(modes.prior)}
    for number, (seat, episode) in enumerate(zip(*schedule, strict=True)):
        next_weights: dict[tuple[Memories, Hashable], Floats] = {}
        is_last = number + 1 == len(schedule.seats)
        for (memories, memory), weight in weights.items():
            hand, _ = hands.get(seat, episode, modes.mask(memories, weight))
            own = reach(memory, number, hand)
            values[episode] += float(own @ (hand.payoff @ weight))
            for ending in np.flatnonzero(own) if not is_last else ():
                tell = hand.tells[ending]
                next_weight = own[ending] * hand.weight[ending] * hand.evidence[tell] * weight
                if not next_weight.any():
                    continue
                key = hand.memories[tell], advance(memory, number, hand, int(ending))
                next_weights[key] = next_weights[key] + next_weight if key in next_weights else next_weight
        if not is_last and schedule.episodes[number + 1] != episode:
            next_weights = {key: modes.after_episode(weight) for key, weight in next_weights.items()}
        weights = next_weights
    return tuple(values)


def learner_value(hands: LearnerHands, game: Game, schedule: Schedule, learner: LearningPolicy) -> tuple[float, ...]:
    """Return the expected payoff of a policy in each episode, summed over its hands.

    Args:
        hands: Hands of the game and pool.
        schedule: Hands of the meta-episode.
        learner: Policy of the learner's seat.
    """
    turns = {
        (node.player, node.information_state): node.turn() for node in tree_of(game).order if node.player is not None
    }

    def reach(memory: Hashable, number: int, hand: LearnerHand) -> Floats:
        seat, episode = schedule.seats[number], schedule.episodes[number]
        own = np.zeros(len(hand.tells))

        def visit(branch: Branch, chance: float) -> None:
            own[list(branch.outcomes.values())] = chance
            for state, options in branch.decisions.items():
                row = learner.distribution_given(turns[seat, state]._replace(episode=episode), memory)
                for action, child in options.items():
                    if row.get(action, 0.0) > 0:
                        visit(child, chance * row[action])

        visit(hand.root, 1.0)
        return own

    def advance(memory: Hashable, number: int, hand: LearnerHand, ending: int) -> Hashable:
        turn: Turn = end_turn(hand.ends[ending], schedule.seats[number], schedule.episodes[number])
        return learner.step(memory, turn)

    return follow(hands, schedule, learner.start, reach, advance)


class BestPlan(NamedTuple):
    """The best play that forgets everything between episodes, and plays each of them alike."""

    plans: Mapping[int, Plan]
    """Plan of a hand by the learner's seat."""
    per_episode: tuple[float, ...]
    """Expected payoff of each episode."""


def best_plan(hands: LearnerHands, schedule: Schedule) -> BestPlan:
    """Return the best plan of one hand per episode, for the sum of all episodes.

    Opponents that learn remember what a plan did in earlier episodes, so each plan is played through all of them.

    Args:
        hands: Hands of the game and pool.
        schedule: Hands of the meta-episode, one per episode.

    Raises:
        TooManyStates: If there are more than `PLANS` plans.
    """
    seats = sorted(set(schedule.seats))
    roots = [hands.whole(seat).root for seat in seats]
    count = prod(map(_count_plans, roots))
    if count > PLANS:
        raise TooManyStates(f"an episode has more than {PLANS:,} plans, and not all of them are compared")
    best: BestPlan | None = None
    for combination in product(*map(_plans, roots)):
        plans = dict(zip(seats, combination, strict=True))
        values = follow_plans(hands, schedule, plans)
        if best is None or sum(values) > sum(best.per_episode) + 1e-12:
            best = BestPlan(plans, values)
    assert best is not None
    return best


def follow_plans(hands: LearnerHands, schedule: Schedule, plans: Mapping[int, Plan]) -> tuple[float, ...]:
    """Return the expected payoff in each episode of a learner that plays every hand by the plan of its seat.

    At an information state outside of the plan, it plays the first action.
    """
    return follow(hands, schedule, (), _reach_of(plans, schedule), lambda memory, number, hand, ending: ())


def first_plan(solution: BayesSolution) -> Plan:
    """Return the plan of the first hand of an optimal learner."""
    plan: dict[str, str] = {}
    branches = [solution.meeting.stages[0].groups[0].hand.root]
    while branches:
        branch = branches.pop()
        for state, options in branch.decisions.items():
            plan[state] = solution.choose(0, 0, branch, state)
            branches.append(options[plan[state]])
    return plan


def _reach_of(plans: Mapping[int, Plan], schedule: Schedule) -> Reach:
    def reach(memory: Hashable, number: int, hand: LearnerHand) -> Floats:
        plan, own = plans[schedule.seats[number]], np.zeros(len(hand.tells))
        branches = [hand.root]
        while branches:
            branch = branches.pop()
            own[list(branch.outcomes.values())] = 1.0
            # A plan for another memory may not cover this state. Then the first action counts, as in `BayesPolicy`.
            branches += [options[plan.get(state, next(iter(options)))] for state, options in branch.decisions.items()]
        return own

    return reach


def _count_plans(branch: Branch) -> int:
    return prod(sum(map(_count_plans, options.values())) for options in branch.decisions.values())


def _plans(branch: Branch) -> Iterator[Plan]:
    """Yield every plan below a branch, without information states that the plan itself avoids."""
    choices = [
        [{state: action, **plan} for action, child in options.items() for plan in _plans(child)]
        for state, options in branch.decisions.items()
    ]
    for combination in product(*choices):
        yield {state: action for plan in combination for state, action in plan.items()}
