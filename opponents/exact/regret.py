"""Exact regrets of single decisions, under the exact posterior over a pool.

The regret of a decision is its loss against optimal play of the rest of the hand, or of the rest of the meta-episode.
All cards and all replies of the opponents are integrated out.

Consider a hand that begins with belief b. Any player's expected return is V(b) minus the sum of its expected regrets,
where V(b) is the value of the myopic learner. Therefore `V(b) - regret` is an unbiased estimate of the player's
expected return. It contains no luck of cards and replies, only the luck of the evidence in earlier hands. It is an
exact control variate (compare Burch et al. 2018, "AIVAT: a new variance reduction technique for agent evaluation in
imperfect information games").

The same holds for a whole meta-episode and any credit. A player's expected payoff is V(prior) minus all its expected
regrets, where V is the value of the optimal learner for that credit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from mage_envs.core import Game
from mage_envs.opponents.exact.bayes import build_hands
from mage_envs.opponents.exact.learner_hands import Branch, Floats
from mage_envs.opponents.exact.modes import Memories
from mage_envs.opponents.exact.rest import OpenHand, PlayedHand, Rest
from mage_envs.opponents.pools import PoolSpec, as_pool
from mage_envs.tree import Node

_ROUNDING = 1e-6
"""Largest amount by which rounding may make a regret negative, in the game's unit."""


class HandRegret(NamedTuple):
    """The regrets of one hand's decisions."""

    value: float
    """Return of the hand."""
    available: float
    """V(b): value of optimal play of this hand, or of the rest of the meta-episode, under the belief b before it."""
    regrets: tuple[float, ...]
    """Regret of each choice, and of an ending outside of the rules; none is negative beyond rounding."""
    beliefs: tuple[tuple[float, ...], ...] = ()
    """Posterior probability of each opponent of the pool at each choice, before it was made."""
    bests: tuple[str, ...] = ()
    """Best action at each choice, the first if several are equally good."""
    values: tuple[Mapping[str, float], ...] = ()
    """Value of each action at each choice, with optimal play of the rest."""
    prior: tuple[float, ...] = ()
    """Posterior probability of each opponent before the hand. A series has one entry for each order of its tasks, and
    an opponent that changes between episodes one for each of its modes."""
    evidence: tuple[float, ...] = ()
    """Likelihood of the hand under each opponent, with the same entries as `prior`."""
    memories: Memories = ()
    """Memory of each opponent before the hand, with the same entries as `prior`; empty if nobody learns."""

    @property
    def adjusted(self) -> float:
        """Estimate of the player's expected return, without the luck of this hand."""
        return self.available - sum(self.regrets)


def _check_regret(cost: float, where: str) -> None:
    """Raise ValueError if a regret is negative beyond rounding."""
    if cost < -_ROUNDING:
        raise ValueError(
            f"The regret at {where!r} is {cost:.4g}, but no play is better than the best. Check that the player's "
            "probabilities sum to 1, and that a timeout pays the game's worst return."
        )


class DecisionValues:
    """The values of all decisions in the hands of a game against a pool, for the regrets of played hands."""

    def __init__(
        self, game: Game, pool: PoolSpec, rest: Rest | None = None, names: Sequence[str] | None = None
    ) -> None:
        """Prepare the values.

        Args:
            game: Game with an enumerable tree.
            pool: Opponents and their prior probabilities.
            rest: Value of the rest of the meta-episode; None evaluates each hand by itself.
            names: Opponent of each entry of the pool (default: the entries), for `Rest.pool` of a series.

        Raises:
            NotExact: If an opponent has no `distribution`.
            NotEnumerable: If the tree of the game cannot be enumerated.
        """
        self._rest = rest
        self._learner_hands = build_hands(game, pool) if rest is None else rest.learner_hands
        self._orders = 1 if rest is None else rest.orders
        self._branch_probabilities: dict[int, Floats] = {}
        """Results of `HandPlan.branch_probabilities` by the id of the plan, which its hand keeps alive."""
        self.modes = self._learner_hands.modes
        self.prior = np.array(self.modes.prior)
        self._names = list(names or map(str, as_pool(pool).entries))

    def judge(self, hands: Sequence[PlayedHand], opponent: str | None = None) -> list[HandRegret]:
        """Return the regrets of each hand of a meta-episode, in the order of play.

        Args:
            opponent: Name of the opponent that was met, for regrets against the best play that knows it. Then
                `HandRegret.adjusted` is an unbiased estimate of the return against this opponent, whatever the player
                believes. None: the posterior over the pool.

        Raises:
            ValueError: If a hand is impossible against this pool, or the opponent is not in it.
            TooManyStates: If a problem is too large.
        """
        belief = self.prior if opponent is None else self._certain(opponent)
        memories, episode = self.modes.start, 0
        regrets = list[HandRegret]()
        for hand, previous_hand in zip(hands, [None, *hands], strict=False):
            # The last hand may have no ending, which does not matter there.
            if memories and previous_hand is not None and previous_hand.by_rules and previous_hand.ending is None:
                raise ValueError("Against opponents that learn, regrets require the player's last view of each hand.")
            belief = self.modes.after_episode(belief, hand.episode - episode)
            episode = hand.episode
            regret, belief, memories = self._judge_hand(hand, belief, memories)
            regrets.append(regret)
        return regrets

    def _certain(self, opponent: str) -> Floats:
        """Return the prior of a judge that knows the opponent; the order of a series' tasks stays unknown."""
        if opponent not in self._names:
            raise ValueError(f"{opponent!r} is not in this pool: {', '.join(self._names)}.")
        # The orders of the tasks of one opponent are neighbours, and so are the modes of one that changes.
        chosen = [name == opponent for name in self._names]
        mask = np.repeat(chosen, self.modes.sizes if len(chosen) == len(self.modes.sizes) else self._orders)
        belief: Floats = self.prior * mask / (self.prior @ mask)
        return belief

    def marginal(self, belief: Floats) -> Floats:
        """Return the probability of each opponent, given that of each of its modes or orders of tasks."""
        by_entry: Floats = self.modes.marginal(belief)
        total: Floats = by_entry.reshape(-1, self._orders).sum(axis=1)
        return total

    def spread(self, posterior: Floats, stated: Floats) -> Floats:
        """Return the belief with stated probabilities of the opponents, and the posterior's proportions within each.

        Args:
            posterior: Probability of each mode or order of tasks, (N,).
        """
        ends = np.cumsum(np.array(self.modes.sizes).reshape(-1, self._orders).sum(axis=1))[:-1]
        parts = []
        for share, row, prior in zip(stated, np.split(posterior, ends), np.split(self.prior, ends), strict=True):
            # Earlier hands may exclude an opponent. The belief in it is then wrong, but it is the player's belief.
            possible = row if row.any() else prior
            parts.append(share * possible / possible.sum())
        belief: Floats = np.concatenate(parts)
        belief /= belief.sum()
        return belief

    def action_values(self, hand: PlayedHand, belief: Floats, memories: Memories) -> list[Mapping[str, float] | None]:
        """Return the value of each action at each choice of a hand, if `belief` is true before the hand.

        A choice that cannot be reached under the belief has None.

        Args:
            belief: Probability of each mode, (N,).
            memories: Memory of each mode before the hand, as in `HandRegret.memories`.
        """
        opened = self._open(hand, belief, memories)
        values_by_choice: list[Mapping[str, float] | None] = []
        for seen in self._choices(hand, opened):
            mass = 0.0 if seen is None else float(seen.likelihood @ belief)
            values_by_choice.append(None if seen is None or mass <= 0 else seen.values(opened.worth, mass))
        return values_by_choice

    def _open(self, hand: PlayedHand, belief: Floats, memories: Memories) -> OpenHand:
        if self._rest is not None:
            return self._rest.open(hand.seat, hand.position, belief, memories)
        learner_hand, plan = self._learner_hands.get(hand.seat, hand.episode, self.modes.mask(memories, belief))
        return OpenHand(learner_hand, plan, plan.tree.worth(belief[:, None])[:, 0])

    def _choices(self, hand: PlayedHand, opened: OpenHand) -> Iterator[_SeenChoice | None]:
        """Yield each choice of a hand, None if no opponent of an opened hand leads to it."""
        plan = opened.plan
        probabilities = self._branch_probabilities.get(id(plan))
        if probabilities is None:
            probabilities = self._branch_probabilities[id(plan)] = plan.branch_probabilities()
        branch: Branch | None = opened.hand.root
        for choice in hand.choices:
            options = None if branch is None else branch.decisions.get(choice.information_state)
            branch = None if options is None else options.get(choice.action)
            if options is None or branch is None:
                yield None
                continue
            numbers = {action: plan.number[id(child)] for action, child in options.items()}
            # The player's own action says nothing about the opponent: all branches of a decision have the same
            # counterfactual probability, so any of them gives the likelihood of the decision.
            yield _SeenChoice(branch, numbers, probabilities[next(iter(numbers.values()))])

    def _judge_hand(self, hand: PlayedHand, belief: Floats, memories: Memories) -> tuple[HandRegret, Floats, Memories]:
        opened = self._open(hand, belief, memories)
        learner_hand, worth = opened.hand, opened.worth
        available, regrets, beliefs = float(worth[-1]), list[float](), list[tuple[float, ...]]()
        bests, values_by_choice = list[str](), list[Mapping[str, float]]()
        branch, likelihood = learner_hand.root, np.ones(len(belief))
        remaining_value = available
        for choice, seen in zip(hand.choices, self._choices(hand, opened), strict=True):
            if seen is None:
                raise ValueError(
                    f"{choice.action!r} at {choice.information_state!r} is not a decision of seat {hand.seat} after "
                    "the earlier moves. Check that the game and its options are those of the played hands."
                )
            likelihood = seen.likelihood
            # Values are multiplied by the probability of the decision, so divide by it.
            mass = float(likelihood @ belief)
            if mass <= 0:
                raise ValueError(f"{choice.information_state!r} cannot be reached against this pool.")
            values = seen.values(worth, mass)
            values_by_choice.append(values)
            row = choice.probabilities or {choice.action: 1.0}
            beliefs.append(tuple(self.marginal(likelihood * belief / mass).tolist()))
            best = max(values.values())
            bests.append(max(values, key=values.__getitem__))
            remaining_value = values[choice.action]
            regrets.append(best - sum(chance * values[action] for action, chance in row.items()))
            _check_regret(regrets[-1], choice.information_state)
            branch = seen.branch
        next_memories = memories
        if hand.by_rules and hand.ending is not None:
            outcome = branch.outcomes.get(hand.ending)
            if outcome is None:
                raise ValueError(f"A hand that ends with {hand.ending!r} cannot be played against this pool.")
            likelihood = learner_hand.evidence[learner_hand.tells[outcome]]
            if memories:
                likelihood, next_memories = self._remember(hand, memories, learner_hand.ends[outcome])
        # Bayes' rule.
        posterior = belief * likelihood
        if not posterior.any():
            raise ValueError("No opponent of this pool can have played this hand. Name the pool of the played hands.")
        posterior = posterior / posterior.sum()
        if not hand.by_rules:
            # The rules do not explain this ending, so its regret is the value that was left minus the actual payoff.
            paid = hand.value
            if self._rest is not None:
                paid *= self._rest.weight(hand.position)
                paid += self._rest.value_after(hand, posterior, next_memories)
            regrets.append(remaining_value - paid)
            _check_regret(regrets[-1], "the end of the hand, which is outside of the rules")
        regret = HandRegret(
            value=hand.value,
            available=available,
            regrets=tuple(regrets),
            beliefs=tuple(beliefs),
            bests=tuple(bests),
            values=tuple(values_by_choice),
            prior=tuple(belief.tolist()),
            evidence=tuple(likelihood.tolist()),
            memories=memories,
        )
        return regret, posterior, next_memories

    def _remember(self, hand: PlayedHand, memories: Memories, end: Node) -> tuple[Floats, Memories]:
        """Return the likelihood of a finished hand and the memory after it, for all modes, also excluded ones."""
        learner_hand, _ = self._learner_hands.get(hand.seat, hand.episode, memories)
        branch = learner_hand.root
        for choice in hand.choices:
            branch = branch.decisions[choice.information_state][choice.action]
        tell = learner_hand.tells[branch.outcomes[str(hand.ending)]]
        next_memories = tuple(
            self.modes.step(mode, memory, end, 1 - hand.seat, hand.episode) for mode, memory in enumerate(memories)
        )
        return learner_hand.evidence[tell], next_memories


class _SeenChoice(NamedTuple):
    """A choice in a hand under a belief."""

    branch: Branch
    """Branch after the action that was played."""
    numbers: Mapping[str, int]
    """Index of the branch of each action."""
    likelihood: Floats
    """Probability of the decision by opponent, without one's own moves, (N,)."""

    def values(self, worth: Floats, mass: float) -> Mapping[str, float]:
        """Return the value of each action, from that of each branch times the probability `mass` of the decision."""
        return {action: float(worth[number]) / mass for action, number in self.numbers.items()}
