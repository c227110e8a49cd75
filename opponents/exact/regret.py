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

from mage_envs.core import Game, NotEnumerable
from mage_envs.games.table_game import TableSeries
from mage_envs.opponents.exact.bayes import (
    GT,
    BayesSolution,
    CreditName,
    Meeting,
    build_hands,
    check_lengths,
    credit_weights,
)
from mage_envs.opponents.exact.beliefs import STATES
from mage_envs.opponents.exact.learner_hands import Branch, Floats
from mage_envs.opponents.exact.series import without_repetition
from mage_envs.opponents.pools import PoolSpec, as_pool

_SOLUTIONS = 64
"""Maximum number of solutions that are kept for each seat of the first hand."""
_SAME = 1e-8
"""Largest difference of probabilities in two beliefs that count as equal."""
_ROUNDING = 1e-6
"""Largest amount by which rounding may make a regret negative, in the game's unit."""


class OwnChoice(NamedTuple):
    """One decision of the player in a hand."""

    information_state: str
    """Information state of the decision."""
    action: str
    """Action that was played."""
    probabilities: Mapping[str, float] | None = None
    """Player's probabilities of the actions if they are known; None counts as probability 1 for `action`."""


class PlayedHand(NamedTuple):
    """A hand from the player's view."""

    seat: int
    """Player's seat."""
    choices: Sequence[OwnChoice]
    """Player's decisions in order."""
    value: float
    """Return of the hand."""
    ending: str | None = None
    """Player's last view of the hand, or None if it is not known. Without it, the belief ignores the ending."""
    by_rules: bool = True
    """True if the rules ended the hand; False after a time limit or an illegal answer."""
    episode: int = 0
    """Index of the hand's episode, because opponents may change between episodes."""
    position: int = 0
    """Index of the hand among all planned hands of the meta-episode."""
    skipped: int = 0
    """Number of planned hands after it that were not played because its episode ended early; `value` includes them."""


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
    """Posterior probability of each opponent before the hand. A series has one entry for each order of its tasks."""
    evidence: tuple[float, ...] = ()
    """Likelihood of the hand under each opponent, with the same entries as `prior`."""

    @property
    def adjusted(self) -> float:
        """Estimate of the player's expected return, without the luck of this hand."""
        return self.available - sum(self.regrets)


class Rest:
    """The value of the rest of a meta-episode, if the optimal learner for a credit continues it."""

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
        limit: int = STATES,
    ) -> None:
        """Prepare the values; problems are solved on first use.

        Args:
            game: Game with an enumerable tree.
            pool: Opponents and their prior probabilities.
            hands: Hands per episode.
            credit: Objective of the learner, a name or one weight per episode.
            gt: Discount across episodes of the credit `mage`.
            alternate: True if the seat changes from hand to hand.
            limit: Maximum number of states of belief. `TooManyStates` beyond it comes on first use.

        Raises:
            ValueError: If a setting is invalid, or the credit is `myopic`, whose weights depend on the decision.
            NotExact: If an opponent has no `distribution`.
            NotEnumerable: If the game has no enumerable tree, or is a series that is not from a table.
            TooManyStates: If the tasks of a series have too many orders.
        """
        check_lengths(episodes, hands)
        if credit == "myopic":
            raise ValueError("Single-episode credit has no rest of the meta-episode. Use horizon='hand'.")
        # For every credit that is accepted here, all rows of the objective are equal, so the first one is enough.
        self.weights = credit_weights(credit, episodes, gt)[0, 0]
        """Weight of each episode's return, (K,)."""
        self.label: str = "own weights"
        """Name of the credit for tables."""
        if credit == "mage":
            self.label = f"mage, gt {gt:g}"
        elif isinstance(credit, str):
            self.label = credit
        self.game, self.pool = game, as_pool(pool)
        """Game and pool of the values. In a series, an opponent is a pair of a policy and an order of the tasks."""
        opponents = len(self.pool)
        if game.spec.series:
            # A task of a series depends on those before, so the posterior also covers their order.
            if not isinstance(game, TableSeries):
                raise NotEnumerable(
                    f"{game.spec.name} is not a series of tasks from a table, so it has no exact regret."
                )
            self.game, self.pool = without_repetition(game, self.pool, episodes, hands)
        self.orders = len(self.pool) // opponents
        """Number of orders of the tasks that the posterior distinguishes; 1 if the game is not a series."""
        self._credit, self._gt = credit, gt
        self._episodes, self._hands, self._alternate, self._limit = episodes, hands, alternate, limit
        self.learner_hands = build_hands(self.game, self.pool)
        self._solutions: dict[int, list[tuple[int, BayesSolution]]] = {}
        """Map from the seat of the first hand to solutions, each with the index of its first hand."""

    def branches(self, seat: int, position: int, belief: Floats) -> Floats:
        """Return the value of each branch of a hand and all later hands, times the branch's probability, (B,).

        Args:
            seat: Player's seat in the hand.
            position: Index of the hand among all planned hands.
            belief: Probability of each opponent before the hand, (N,).
        """
        solution, hand, state = self._find_solution(seat, position, belief)
        return solution.worth(hand, state)

    def weight(self, position: int) -> float:
        """Return the weight of a hand's return."""
        return float(self.weights[position // self._hands])

    def value_after(self, hand: PlayedHand, belief: Floats) -> float:
        """Return the value of the hands that are played after a hand, given the belief after it."""
        on = 1 + hand.skipped
        if hand.position + on >= self._episodes * self._hands:
            return 0.0
        seat = (hand.seat + on) % self.game.spec.players if self._alternate else hand.seat
        # The last branch is the root: the value of the whole next hand and everything after it.
        return float(self.branches(seat, hand.position + on, belief)[-1])

    def _find_solution(self, seat: int, position: int, belief: Floats) -> tuple[BayesSolution, int, int]:
        """Return a solution with the hand's index and the state's index in it."""
        # Solutions are kept by the seat of hand 0, which follows from the seat of this hand if seats alternate.
        seat0 = (seat - position) % self.game.spec.players if self._alternate else seat
        solutions = self._solutions.setdefault(seat0, [])
        for start, solution in solutions:
            if start <= position:
                beliefs = solution.meeting.stages[position - start].beliefs
                distance = np.abs(beliefs - belief[:, None]).max(axis=0)
                state = int(distance.argmin())
                if distance[state] < _SAME:
                    return solution, position - start, state
        # This is the first call for the seat, or the belief is new: only complete hands lead to the states of a
        # solution, and the evidence of a hand without an ending is partial. Solve the rest from this belief.
        meeting = Meeting(
            self.game,
            self.pool,
            seat0,
            episodes=self._episodes,
            hands=self._hands,
            alternate=self._alternate,
            limit=self._limit,
            learner_hands=self.learner_hands,
            start=position,
            prior=belief.tolist(),
        )
        solutions.append((position, BayesSolution(meeting, self._credit, self._gt)))
        # Each belief that a player states is a problem of its own. The first solution, from the prior, is used most.
        if len(solutions) > _SOLUTIONS:
            del solutions[1]
        return solutions[-1][1], 0, 0


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
        self.prior = np.array((as_pool(pool) if rest is None else rest.pool).weights)
        self.opponents = len(self.prior) // self._orders
        """Number of opponents."""
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
        regrets = []
        for hand in hands:
            regret, belief = self._judge_hand(hand, belief)
            regrets.append(regret)
        return regrets

    def _certain(self, opponent: str) -> Floats:
        """Return the prior of a judge that knows the opponent; the order of a series' tasks stays unknown."""
        if opponent not in self._names:
            raise ValueError(f"{opponent!r} is not in this pool: {', '.join(self._names)}.")
        # The orders of the tasks of one opponent are neighbours.
        repeats = len(self.prior) // len(self._names)
        mask = np.repeat([name == opponent for name in self._names], repeats)
        belief: Floats = self.prior * mask / (self.prior @ mask)
        return belief

    def action_values(self, hand: PlayedHand, belief: Floats) -> list[Mapping[str, float] | None]:
        """Return the value of each action at each choice of a hand, if `belief` is true before the hand.

        A choice that cannot be reached under the belief has None.
        """
        worth = self._worth(hand, belief)
        values_by_choice: list[Mapping[str, float] | None] = []
        for _, _, numbers, likelihood in self._choices(hand):
            mass = float(likelihood @ belief)
            values = {action: float(worth[number]) / mass for action, number in numbers.items()} if mass > 0 else None
            values_by_choice.append(values)
        return values_by_choice

    def _worth(self, hand: PlayedHand, belief: Floats) -> Floats:
        """Return the value of each branch of a hand, times its probability, (B,)."""
        if self._rest is None:
            _, plan = self._learner_hands.get(hand.seat, hand.episode)
            return plan.tree.worth(belief[:, None])[:, 0]
        return self._rest.branches(hand.seat, hand.position, belief)

    def _choices(self, hand: PlayedHand) -> Iterator[tuple[OwnChoice, Mapping[str, Branch], Mapping[str, int], Floats]]:
        """Yield each choice of a hand, the branch of each action, its number, and the opponents' likelihoods."""
        learner_hand, plan = self._learner_hands.get(hand.seat, hand.episode)
        probabilities = self._branch_probabilities.get(id(plan))
        if probabilities is None:
            probabilities = self._branch_probabilities[id(plan)] = plan.branch_probabilities()
        branch = learner_hand.root
        for choice in hand.choices:
            options = self._options(branch, choice, hand.seat)
            numbers = {action: plan.number[id(child)] for action, child in options.items()}
            # The player's own action is no evidence: all branches of a decision have the same counterfactual
            # probability, so any of them gives the likelihood of the decision.
            yield choice, options, numbers, probabilities[next(iter(numbers.values()))]
            branch = options[choice.action]

    def _judge_hand(self, hand: PlayedHand, belief: Floats) -> tuple[HandRegret, Floats]:
        learner_hand, _ = self._learner_hands.get(hand.seat, hand.episode)
        worth = self._worth(hand, belief)
        available, regrets, beliefs = float(worth[-1]), list[float](), list[tuple[float, ...]]()
        bests, values_by_choice = list[str](), list[Mapping[str, float]]()
        branch, likelihood = learner_hand.root, np.ones(len(belief))
        remaining_value = available
        for choice, options, numbers, likelihood in self._choices(hand):
            # Values are multiplied by the probability of the decision, so divide by it.
            mass = float(likelihood @ belief)
            if mass <= 0:
                raise ValueError(f"{choice.information_state!r} cannot be reached against this pool.")
            values = {action: float(worth[number]) / mass for action, number in numbers.items()}
            values_by_choice.append(values)
            row = choice.probabilities or {choice.action: 1.0}
            # The orders of the tasks of one opponent are neighbours.
            beliefs.append(tuple((likelihood * belief / mass).reshape(-1, self._orders).sum(axis=1).tolist()))
            best = max(values.values())
            bests.append(max(values, key=values.__getitem__))
            remaining_value = values[choice.action]
            regrets.append(best - sum(chance * values[action] for action, chance in row.items()))
            _check_regret(regrets[-1], choice.information_state)
            branch = options[choice.action]
        if hand.by_rules and hand.ending is not None:
            outcome = branch.outcomes.get(hand.ending)
            if outcome is None:
                raise ValueError(f"A hand that ends with {hand.ending!r} cannot be played against this pool.")
            likelihood = learner_hand.evidence[learner_hand.tells[outcome]]
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
                paid += self._rest.value_after(hand, posterior)
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
        )
        return regret, posterior

    def _options(self, branch: Branch, choice: OwnChoice, seat: int) -> Mapping[str, Branch]:
        try:
            options = branch.decisions[choice.information_state]
            options[choice.action]
        except KeyError:
            raise ValueError(
                f"{choice.action!r} at {choice.information_state!r} is not a decision of seat {seat} after the earlier "
                "moves. Check that the game and its options are those of the played hands."
            ) from None
        return options
