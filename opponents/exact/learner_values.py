"""Exact value of a given learner against a pool: the best plan without memory, and learners that are policies.

A policy must be a `LearningPolicy`, or have no memory at all. The method is one forward pass over the states of a
meta-episode: the memories of the opponents, the memory of the learner, and the probability of both with each opponent.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from mage_envs.core import Game, Turn
from mage_envs.opponents.exact.bayes import BayesSolution
from mage_envs.opponents.exact.learner_hands import Branch, Floats, LearnerHand, TooManyStates
from mage_envs.opponents.exact.modes import Memories, end_turn
from mage_envs.opponents.exact.plans import CELLS, LearnerHands
from mage_envs.opponents.learning.policy import LearningPolicy
from mage_envs.tree import tree_of

EFFECTS = 200_000
"""Maximum number of plans with different effects that are compared."""
_DIGITS = 12
"""Digits in which two effects must agree to be the same."""
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
        TooManyStates: If there are too many plans with different effects.
    """
    plans = _PlanSearch(hands, schedule.seats, schedule.episodes).find()
    return BestPlan(plans, follow_plans(hands, schedule, plans))


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


# -- the best plan ---------------------------------------------------------------------------------------------
# Plans with the same effects are the same plan here. The effect of a plan on an opponent with a memory is its expected
# payoff, and the probability of each memory after the hand. Both are sums over the endings that the plan allows, so the
# effects of a branch are sums of the effects of its decisions. Many plans share their effects, because most decisions
# matter to few opponents. Opponents without a memory add a payoff only: of plans that differ in nothing else, the best
# one remains.


@dataclass(frozen=True)
class _Context:
    """A hand against one opponent with given memories, or against all opponents without memory."""

    hand: LearnerHand
    rows: Floats
    """Effect of each ending, (M, D): payoff for each mode, then the probability of each next memory for each mode."""
    next_memories: Sequence[Memories]
    """Memories after the hand, in the order of the columns."""
    start: int
    """First column among the columns of all contexts of the seat."""


class _Effects(NamedTuple):
    """Different effects of the plans of a branch."""

    vectors: Floats
    """Effect on the opponents with a memory, (n, D)."""
    fixed: Floats
    """Payoff against the opponents without a memory, (n,)."""
    plans: Sequence[Any]
    """A plan with each effect, as nested pairs: (information state, action) or (plan, plan), or None if empty."""


class _PlanSearch:
    """The plans of an episode of one hand, with their effects in a meta-episode."""

    def __init__(self, hands: LearnerHands, seats: Sequence[int], episodes: Sequence[int]) -> None:
        """Prepare the contexts.

        Args:
            hands: Hands of the game and pool.
            seats: Learner's seat in each hand.
            episodes: Index of the episode of each hand.
        """
        self._hands, self._seats, self._episodes = hands, seats, episodes
        modes = hands.modes
        ends = np.cumsum(modes.sizes)
        slices = [slice(int(end) - size, int(end)) for end, size in zip(ends, modes.sizes, strict=True)]
        self._blocks = [block for block in slices if modes.learns and self._remembers(block)]
        """Modes of each opponent that learns or changes."""
        self._contexts: dict[int, dict[tuple[int, int, Memories], _Context]] = {seat: {} for seat in seats}
        """Contexts by seat, and by the block, the first column of the hand and the memories before it."""
        self._fixed: dict[int, list[tuple[LearnerHand, Floats]]] = {seat: [] for seat in seats}
        """Hands against the opponents without a memory, by seat, with the payoff of each ending, (M,)."""
        self._widths = dict.fromkeys(seats, 0)
        """Number of columns by seat."""
        self._add_fixed_hands()
        for number, block in enumerate(self._blocks):
            self._add_contexts(number, block)

    def find(self) -> Mapping[int, Plan]:
        """Return the best plan of each seat for the sum of all episodes.

        Raises:
            TooManyStates: If there are too many plans with different effects.
        """
        effects = {seat: self._effects_of(seat) for seat in sorted(set(self._seats))}
        _check_count(int(np.prod([len(part.fixed) for part in effects.values()])), sum(self._widths.values()))
        # Each row of `choice` is one combination of plans, one for each seat.
        choice = np.array([*product(*(range(len(part.fixed)) for part in effects.values()))])
        chosen = {seat: choice[:, column] for column, seat in enumerate(effects)}
        total = sum(effects[seat].fixed[indices] for seat, indices in chosen.items())
        for number, block in enumerate(self._blocks):
            total = total + self._value(number, block, {seat: effects[seat].vectors[chosen[seat]] for seat in effects})
        # The first one of equally good plans; rounding may separate them.
        best = int(np.flatnonzero(total >= total.max() - 10.0**-_DIGITS)[0])
        return {seat: _plan_from(effects[seat].plans[chosen[seat][best]]) for seat in effects}

    def _remembers(self, block: slice) -> bool:
        modes = self._hands.modes
        return block.stop - block.start > 1 or any(
            isinstance(policy, LearningPolicy) for policy in modes.policies[block]
        )

    def _only(self, block: slice, memories: Memories) -> Memories:
        """Return memories in which only the modes of a block are possible."""
        return tuple(memory if block.start <= i < block.stop else None for i, memory in enumerate(memories))

    def _add_fixed_hands(self) -> None:
        modes = self._hands.modes
        learning = {i for block in self._blocks for i in range(block.start, block.stop)}
        prior = np.array([0.0 if i in learning else chance for i, chance in enumerate(modes.prior)])
        if not prior.any():
            return
        memories = tuple(None if i in learning else memory for i, memory in enumerate(modes.start))
        for seat, episode in zip(self._seats, self._episodes, strict=True):
            hand, _ = self._hands.get(seat, episode, memories)
            self._fixed[seat].append((hand, hand.payoff @ prior))

    def _add_contexts(self, number: int, block: slice) -> None:
        """Add every hand that the opponent of a block can play, whatever the learner does."""
        reachable = {self._only(block, self._hands.modes.start)}
        for seat, episode in zip(self._seats, self._episodes, strict=True):
            next_reachable: set[Memories] = set()
            for memories in reachable:
                context = self._contexts[seat].get((number, episode, memories))
                if context is None:
                    hand, _ = self._hands.get(seat, episode, memories)
                    is_last = episode == self._episodes[-1]
                    context = _context(hand, block, self._widths[seat], is_last=is_last)
                    self._widths[seat] += context.rows.shape[1]
                    self._contexts[seat][number, episode, memories] = context
                next_reachable.update(context.next_memories)
            reachable = next_reachable

    def _effects_of(self, seat: int) -> _Effects:
        contexts = [*self._contexts[seat].values()]
        hands = [context.hand for context in contexts] + [hand for hand, _ in self._fixed[seat]]

        def own_effect(branches: Sequence[Branch | None]) -> tuple[Floats, float]:
            vector, payoff = np.zeros(self._widths[seat]), 0.0
            for context, branch in zip(contexts, branches, strict=False):
                if branch is not None:
                    columns = slice(context.start, context.start + context.rows.shape[1])
                    vector[columns] = context.rows[list(branch.outcomes.values())].sum(axis=0)
            for (_, payoffs), branch in zip(self._fixed[seat], branches[len(contexts) :], strict=True):
                if branch is not None:
                    payoff += float(payoffs[list(branch.outcomes.values())].sum())
            return vector, payoff

        def visit(branches: Sequence[Branch | None]) -> _Effects:
            vector, payoff = own_effect(branches)
            parts = [_Effects(vector[None], np.array([payoff]), [None])]
            decisions = [{} if branch is None else branch.decisions for branch in branches]
            for state in dict.fromkeys(state for known in decisions for state in known):
                options = [known.get(state, {}) for known in decisions]
                alternatives = []
                for action in dict.fromkeys(action for actions in options for action in actions):
                    effects = visit([actions.get(action) for actions in options])
                    choice = (state, action)
                    alternatives.append(effects._replace(plans=[(choice, plan) for plan in effects.plans]))
                parts.append(_distinct(_concatenate(alternatives)))
            # Small sets first, so that the products stay small.
            return reduce(_add, sorted(parts, key=lambda part: len(part.fixed)))

        return visit([hand.root for hand in hands])

    def _value(self, number: int, block: slice, vectors: Mapping[int, Floats]) -> Floats:
        """Return the payoff of each combination of plans against the opponent of a block, over all episodes, (n,)."""
        modes, size = self._hands.modes, block.stop - block.start
        count = len(next(iter(vectors.values())))
        total = np.zeros(count)
        switches = None if modes.switches is None else modes.switches[block, block]
        weights = {self._only(block, modes.start): np.tile(np.array(modes.prior[block]), (count, 1))}
        for index, (seat, episode) in enumerate(zip(self._seats, self._episodes, strict=True)):
            next_weights: dict[Memories, Floats] = {}
            for memories, weight in weights.items():
                context = self._contexts[seat][number, episode, memories]
                rows = vectors[seat][:, context.start : context.start + context.rows.shape[1]]
                total += (rows[:, :size] * weight).sum(axis=1)
                for position, next_memories in enumerate(context.next_memories, start=1):
                    moved = rows[:, position * size : (position + 1) * size] * weight
                    next_weights[next_memories] = next_weights.get(next_memories, 0.0) + moved
            ends_episode = index + 1 < len(self._seats) and self._episodes[index + 1] != episode
            if switches is not None and ends_episode:
                next_weights = {key: weight @ switches for key, weight in next_weights.items()}
            weights = next_weights
        return total


def _context(hand: LearnerHand, block: slice, start: int, *, is_last: bool) -> _Context:
    chances = hand.weight[:, None] * hand.evidence[hand.tells][:, block]
    # No hand follows the last one, so its effect is the payoff alone.
    next_memories = [] if is_last else list(dict.fromkeys(hand.memories))
    columns = [hand.payoff[:, block]]
    for memories in next_memories:
        leads_there = np.array([after == memories for after in hand.memories])[hand.tells]
        columns.append(chances * leads_there[:, None])
    return _Context(hand=hand, rows=np.hstack(columns), next_memories=next_memories, start=start)


def _concatenate(parts: Sequence[_Effects]) -> _Effects:
    return _Effects(
        np.concatenate([part.vectors for part in parts]),
        np.concatenate([part.fixed for part in parts]),
        [plan for part in parts for plan in part.plans],
    )


def _add(left: _Effects, right: _Effects) -> _Effects:
    """Return the effects of a plan of both."""
    count = len(left.fixed) * len(right.fixed)
    _check_count(count, left.vectors.shape[1])
    vectors = (left.vectors[:, None] + right.vectors[None]).reshape(count, -1)
    fixed = (left.fixed[:, None] + right.fixed[None]).reshape(-1)
    plans = [(first, second) for first in left.plans for second in right.plans]
    return _distinct(_Effects(vectors, fixed, plans))


def _distinct(effects: _Effects) -> _Effects:
    """Return the different effects, each with its best plan, in the order of their first plans."""
    # Adding 0 turns -0 into 0, which has other bytes.
    keys = [row.tobytes() for row in np.round(effects.vectors, _DIGITS) + 0.0]
    best: dict[bytes, int] = {}
    for index, key in enumerate(keys):
        if key not in best or effects.fixed[index] > effects.fixed[best[key]] + 10.0**-_DIGITS:
            best[key] = index
    chosen = [*best.values()]
    return _Effects(effects.vectors[chosen], effects.fixed[chosen], [effects.plans[index] for index in chosen])


def _check_count(count: int, width: int) -> None:
    if count > min(EFFECTS, CELLS // max(width, 1)):
        raise TooManyStates(
            f"an episode has {count:,} plans or more with different effects, too many to compare all of them"
        )


def _plan_from(nested: Any) -> Plan:
    plan: dict[str, str] = {}
    waiting = [nested]
    while waiting:
        part = waiting.pop()
        if part is None:
            continue
        first, second = part
        if isinstance(first, str):
            plan[first] = second
        else:
            waiting += [first, second]
    return plan
