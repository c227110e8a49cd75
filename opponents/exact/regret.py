"""What single decisions cost, exactly: the regret of each against the best play of the rest of the hand, under the
exact posterior over a pool, all cards and all replies of the opponents integrated out.

In a hand that begins with belief b, the expected return of any player is V(b) - the sum of its expected regrets, where
V(b) is what the myopic learner earns. So `V(b) - regret` is an unbiased estimate of what the player earns that has no
luck of cards and replies in it, only that of what was learned: an exact control variate (compare Burch et al. 2018,
"AIVAT: a new variance reduction technique for agent evaluation in imperfect information games").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from mage_envs.core import Game
from opponents.exact.bayes import HandPlan
from opponents.exact.beliefs import Floats
from opponents.exact.hands import Branch, LivedHand, hand_of
from opponents.exact.tree import Objective, exact_policy, payoff_of, roots_of
from opponents.pools import PoolSpec, as_pool


class OwnChoice(NamedTuple):
    """One decision of a hand."""

    information_state: str
    action: str
    """What was played, by which the hand goes on."""
    probabilities: Mapping[str, float] | None = None
    """Those with which the player chose, where they are known; None: what was played stands for them."""


class PlayedHand(NamedTuple):
    """A hand as the player saw it."""

    seat: int
    choices: Sequence[OwnChoice]
    value: float
    """What it brought."""
    ending: str | None = None
    """What was seen last; None where that is not known: then nothing is learned from it."""
    by_rules: bool = True
    """False: its turns ran out, or an illegal answer lost it."""


class HandRegret(NamedTuple):
    """What the decisions of one hand cost."""

    value: float
    """What the hand brought."""
    available: float
    """V(b): what the best play of this hand is worth under the belief that it began with."""
    regrets: tuple[float, ...]
    """Of each choice, and of an ending outside of the rules; none is negative but for rounding, except that one."""

    @property
    def adjusted(self) -> float:
        """The estimate of the player's expected return without the luck of this hand."""
        return self.available - sum(self.regrets)


class DecisionValues:
    """The hands of a game against a pool, ready to judge what was played in them."""

    def __init__(self, game: Game, pool: PoolSpec, objective: Objective = "returns") -> None:
        """Raises `NotExact`, `NotEnumerable`, `TooManyStates` where there are no exact values."""
        mixture = as_pool(pool)
        self._opponents = [exact_policy(entry, game) for entry in mixture.entries]
        self._roots, self._payoff = roots_of(game), payoff_of(objective)
        self._hands: dict[int, tuple[LivedHand, HandPlan, Floats]] = {}
        self.prior = np.array(mixture.weights)

    def judge(self, hands: Sequence[PlayedHand]) -> list[HandRegret]:
        """The regret of each hand of a meta-episode, in the order of play.

        Raises ValueError for what cannot have happened against this pool.
        """
        belief = self.prior
        judged = []
        for hand in hands:
            regret, belief = self._hand(hand, belief)
            judged.append(regret)
        return judged

    def _hand(self, played: PlayedHand, belief: Floats) -> tuple[HandRegret, Floats]:
        lived, plan, reached = self._solved(played.seat)
        worth = _worth(plan, belief)
        available, regrets = float(worth[-1]), []
        branch, likelihood = lived.root, np.ones(len(belief))
        left = available
        for choice in played.choices:
            options = self._options(branch, choice, played.seat)
            numbers = {action: plan.number[id(after)] for action, after in options.items()}
            likelihood = reached[next(iter(numbers.values()))]
            mass = float(likelihood @ belief)
            if mass <= 0:
                raise ValueError(f"{choice.information_state!r} cannot be reached against this pool.")
            values = {action: float(worth[number]) / mass for action, number in numbers.items()}
            row = choice.probabilities or {choice.action: 1.0}
            best = max(values.values())
            left = values[choice.action]
            regrets.append(best - sum(chance * values[action] for action, chance in row.items()))
            branch = options[choice.action]
        if not played.by_rules:
            regrets.append(left - played.value)
        elif played.ending is not None:
            outcome = branch.outcomes.get(played.ending)
            if outcome is None:
                raise ValueError(f"A hand that ends with {played.ending!r} cannot be played against this pool.")
            likelihood = lived.evidence[outcome.evidence]
        after = belief * likelihood
        if not after.any():
            raise ValueError("No opponent of this pool can have played what was seen; name the pool that was met.")
        return HandRegret(played.value, available, tuple(regrets)), after / after.sum()

    def _options(self, branch: Branch, choice: OwnChoice, seat: int) -> Mapping[str, Branch]:
        try:
            options = branch.decisions[choice.information_state]
            options[choice.action]
        except KeyError:
            raise ValueError(
                f"{choice.action!r} at {choice.information_state!r} is no decision of seat {seat} after what was "
                "played before: it is of another game, or of other options."
            ) from None
        return options

    def _solved(self, seat: int) -> tuple[LivedHand, HandPlan, Floats]:
        if seat not in self._hands:
            lived = hand_of(self._roots, self._opponents, seat, self._payoff)
            plan = HandPlan(lived)
            reached = plan.mass @ plan.evidence
            for branch, decisions in plan.decisions:
                reached[branch] += sum(reached[options[0]] for options in decisions)
            self._hands[seat] = lived, plan, reached
        return self._hands[seat]


def _worth(plan: HandPlan, belief: Floats) -> Floats:
    """(B,): what each branch of a hand is worth with the best decisions from there on, times its probability."""
    worth: Floats = plan.payoff @ belief
    for branch, decisions in plan.decisions:
        worth[branch] += sum(worth[options].max() for options in decisions)
    return worth
