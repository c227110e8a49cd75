"""What single decisions cost, exactly: the regret of each against the best play of the rest of the hand, or of the rest
of the meta-episode, under the exact posterior over a pool, all cards and all replies of the opponents integrated out.

In a hand that begins with belief b, the expected return of any player is V(b) - the sum of its expected regrets, where
V(b) is what the myopic learner earns. So `V(b) - regret` is an unbiased estimate of what the player earns that has no
luck of cards and replies in it, only that of what was learned: an exact control variate (compare Burch et al. 2018,
"AIVAT: a new variance reduction technique for agent evaluation in imperfect information games").

Over a meta-episode the same holds once: what any player is paid in all of it, by some credit, is V of the prior less
all its expected regrets, where V is what the learner earns that is optimal for that credit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from mage_envs.core import Game
from opponents.exact.bayes import (
    GT,
    BayesSolution,
    CreditName,
    Meeting,
    check_lengths,
    credit_weights,
    lived_hands,
)
from opponents.exact.hands import Branch, Floats
from opponents.exact.tree import Objective
from opponents.pools import PoolSpec, as_pool

_SAME = 1e-8
"""Largest difference of probabilities in beliefs that are one."""


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
    episode: int = 0
    """Its episode, as the opponents of a pool may play otherwise in each."""
    place: int = 0
    """Its number among all planned hands of the meta-episode."""
    skipped: int = 0
    """How many of the planned hands after it were not played, where it ended its episode early; `value` holds them."""


class HandRegret(NamedTuple):
    """What the decisions of one hand cost."""

    value: float
    """What the hand brought."""
    available: float
    """V(b): what the best play of this hand, or of the rest of the meta-episode, is worth under the belief that the
    hand began with."""
    regrets: tuple[float, ...]
    """Of each choice, and of an ending outside of the rules; none is negative but for rounding, except that one."""

    @property
    def adjusted(self) -> float:
        """The estimate of the player's expected return without the luck of this hand."""
        return self.available - sum(self.regrets)


class Rest:
    """The rest of a meta-episode, as the learner would go on that is optimal for a credit (`opponents.exact.bayes`)."""

    def __init__(
        self,
        game: Game,
        pool: PoolSpec,
        *,
        episodes: int,
        hands: int = 1,
        credit: CreditName | Sequence[float] = "sum",
        gt: float = GT,
        alternate: bool = True,
        objective: Objective = "returns",
    ) -> None:
        """Raises ValueError for a credit that does not count every decision in the same way (`myopic`)."""
        check_lengths(episodes, hands)
        if credit == "myopic":
            raise ValueError("Single-episode credit has no rest of the meta-episode; take horizon='hand'.")
        self.weights = credit_weights(credit, episodes, gt)[0, 0]
        """(K,): of what each episode earns."""
        self.label = f"mage, gt {gt:g}" if credit == "mage" else credit if isinstance(credit, str) else "own weights"
        self._game, self._pool, self._credit, self._gt = game, as_pool(pool), credit, gt
        self._episodes, self._hands, self._alternate, self._objective = episodes, hands, alternate, objective
        self.lived = lived_hands(game, self._pool, objective)
        self._solved: dict[int, list[tuple[int, BayesSolution]]] = {}
        """By the seat of the first hand, solutions from some hand on."""

    def branches(self, seat: int, place: int, belief: Floats) -> Floats:
        """(B,): what each branch of that hand, in that seat, is worth from there on, times its probability."""
        solution, hand, state = self._found(seat, place, belief)
        return solution.worth(hand, state)

    def weight(self, place: int) -> float:
        """Of what that hand earns."""
        return float(self.weights[place // self._hands])

    def after(self, played: PlayedHand, belief: Floats) -> float:
        """What the hands that are played after that one are worth."""
        on = 1 + played.skipped
        if played.place + on >= self._episodes * self._hands:
            return 0.0
        seat = (played.seat + on) % self._game.facts.players if self._alternate else played.seat
        return float(self.branches(seat, played.place + on, belief)[-1])

    def _found(self, seat: int, place: int, belief: Floats) -> tuple[BayesSolution, int, int]:
        """A solution, and the hand and the state in it; solved anew for a belief that legal play cannot lead to."""
        seat0 = (seat - place) % self._game.facts.players if self._alternate else seat
        solved = self._solved.setdefault(seat0, [])
        for start, solution in solved:
            if start <= place:
                beliefs = solution.meeting.stages[place - start].beliefs
                distance = np.abs(beliefs - belief[:, None]).max(axis=0)
                state = int(distance.argmin())
                if distance[state] < _SAME:
                    return solution, place - start, state
        meeting = Meeting(
            self._game,
            self._pool,
            seat0,
            episodes=self._episodes,
            hands=self._hands,
            objective=self._objective,
            alternate=self._alternate,
            lived=self.lived,
            start=place,
            prior=belief.tolist(),
        )
        solved.append((place, BayesSolution(meeting, self._credit, self._gt)))
        return solved[-1][1], 0, 0


class DecisionValues:
    """The hands of a game against a pool, ready to judge what was played in them."""

    def __init__(self, game: Game, pool: PoolSpec, objective: Objective = "returns", rest: Rest | None = None) -> None:
        """`rest`: judges decisions by all that is left of the meta-episode, and not each hand for itself.

        Raises `NotExact`, `NotEnumerable`, `TooManyStates` where there are no exact values.
        """
        self._rest = rest
        self._lived = lived_hands(game, pool, objective) if rest is None else rest.lived
        self._reached: dict[int, Floats] = {}
        """By the id of a plan, which the hands keep, what `HandPlan.reached` found."""
        self.prior = np.array(as_pool(pool).weights)

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
        lived, plan = self._lived.seated(played.seat, played.episode)
        reached = self._reached.get(id(plan))
        if reached is None:
            reached = self._reached[id(plan)] = plan.reached()
        if self._rest is None:
            worth = plan.tree.worth(belief[:, None])[:, 0]
        else:
            worth = self._rest.branches(played.seat, played.place, belief)
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
        if played.by_rules and played.ending is not None:
            outcome = branch.outcomes.get(played.ending)
            if outcome is None:
                raise ValueError(f"A hand that ends with {played.ending!r} cannot be played against this pool.")
            likelihood = lived.evidence[lived.tells[outcome]]
        after = belief * likelihood
        if not after.any():
            raise ValueError("No opponent of this pool can have played what was seen; name the pool that was met.")
        after = after / after.sum()
        if not played.by_rules:
            paid = played.value
            if self._rest is not None:
                paid *= self._rest.weight(played.place)
                paid += self._rest.after(played, after)
            regrets.append(left - paid)
        return HandRegret(played.value, available, tuple(regrets)), after

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
