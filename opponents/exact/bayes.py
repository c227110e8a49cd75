"""The most that a learner can earn over several episodes against one opponent that was drawn from a known pool and is
not named, for whatever the learner is paid.

Exact dynamic programming over (hand, belief). What is maximised is a weighted sum of what the episodes earn; the
weights may depend on the episode in which the decision is made, so that one program solves every kind of credit:

* `sum`: all episodes alike (cumulative credit with gt = 1).
* `mage`: differential credit at a given gt, which is the weights of `differential_weights`.
* `last`: the last episode alone.
* `myopic`: each episode maximises itself given all that was seen: single-episode credit.
* any weights, one for each episode, or a row of them for the decisions of each episode.

Among equally good actions it takes the one that earns most in the present episode, then in all that are left.

Forwards, `stages_of` finds the states; backwards, the hand is solved in all states at once, last hand first.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from mage_envs.core import Game
from mage_envs.env import SEATINGS
from opponents.exact.beliefs import CHUNK, STATES, BeliefStage, Floats, TellsStates, stages_of
from opponents.exact.hands import Branch, LivedHand, hand_of
from opponents.exact.tree import Objective, check_seat, exact_policy, payoff_of, roots_of
from opponents.pools import PoolSpec, as_pool

CreditName = Literal["myopic", "sum", "mage", "last"]
Credit = CreditName | Sequence[float] | Sequence[Sequence[float]]
"""What the learner is paid: a name, or a weight for each episode's return; as (K, K), for the decisions of each episode
a row of weights, which need not agree (each decision then counts on those to come as they will be taken)."""
GT = 0.6
"""The discount across episodes of the credit `mage` where none is given."""
CELLS = 2**25
"""Most values of a table over the branches of a hand and the states that are worked on at a time (256 MB)."""
_TIE = 1e-10
"""Relative difference below which two actions are equally good."""
_NOTHING = 1e-15
"""What is 0 but for rounding."""


def differential_weights(episodes: int, gt: float) -> tuple[float, ...]:
    """The weight of each episode's return in the sum of gt^k (R_k - R_{k-1}): gt^k - gt^(k+1), the last gt^k alone."""
    return tuple(gt**k - (gt ** (k + 1) if k + 1 < episodes else 0.0) for k in range(episodes))


def credit_weights(credit: Credit, episodes: int, gt: float = GT) -> Floats:
    """(3, K, K): for a decision in each episode, the weight of each episode's return: what counts; among equals what
    this episode earns; then what all that are left earn.

    Raises ValueError for an unknown name, for a gt outside [0, 1], for weights that are not one per episode, and for
    weights that are not finite or do not sum to 1.
    """
    if not 0 <= gt <= 1:
        raise ValueError(f"gt must be between 0 and 1, got {gt}.")
    now, later = np.eye(episodes), np.triu(np.ones((episodes, episodes)))
    if not isinstance(credit, str):
        weights = np.array(credit, float)
        if weights.shape not in ((episodes,), (episodes, episodes)) or not np.isfinite(weights).all():
            raise ValueError(f"The weights must be {episodes} numbers, one for each episode, got {tuple(credit)}.")
        sums = np.round(weights.sum(axis=-1), 6)
        if (sums != 1).any():
            raise ValueError(f"The weights must sum to 1, got {tuple(credit)}, which sum to {sums}.")
    elif credit == "myopic":
        return np.stack([now, now, later])
    elif credit == "sum":
        weights = np.ones(episodes)
    elif credit == "mage":
        weights = np.array(differential_weights(episodes, gt))
    elif credit == "last":
        weights = np.eye(episodes)[-1]
    else:
        raise ValueError(f"credit={credit!r} is unknown; choose {', '.join(get_args(CreditName))}, or give weights.")
    return np.stack([np.broadcast_to(weights, (episodes, episodes)), now, later])


def check_lengths(episodes: int, hands: int) -> None:
    """Raises ValueError unless there is something to play."""
    if episodes < 1 or hands < 1:
        raise ValueError(f"There must be at least one episode of one hand, got {episodes=}, {hands=}.")


class BayesValue(NamedTuple):
    """What the optimal learner earns."""

    per_episode: tuple[float, ...]
    """Expected payoff of each episode, all hands of the episode together."""
    states: int
    seconds: float
    """Of CPU."""

    @property
    def total(self) -> float:
        """Over all episodes."""
        return sum(self.per_episode)


class Meeting:
    """A pool met in one first seat: the hands as the learner lives them, and what it may believe before each."""

    def __init__(
        self,
        game: Game,
        pool: PoolSpec,
        seat0: int,
        *,
        episodes: int = 3,
        hands: int = 1,
        objective: Objective = "returns",
        alternate: bool = True,
        limit: int = STATES,
        progress: TellsStates | None = None,
    ) -> None:
        """Seats alternate from hand to hand, or stay at `seat0`.

        Raises `NotExact` for an opponent without `distribution`, `NotEnumerable` for a game without a tree,
        `TooManyStates` above `limit` states.
        """
        started = time.process_time()
        check_seat(game, seat0)
        check_lengths(episodes, hands)
        mixture = as_pool(pool)
        opponents = [exact_policy(entry, game) for entry in mixture.entries]
        self.episodes = episodes
        self.seats = [(seat0 + j) % game.facts.players if alternate else seat0 for j in range(episodes * hands)]
        roots, payoff = roots_of(game), payoff_of(objective)
        made = {seat: hand_of(roots, opponents, seat, payoff) for seat in sorted(set(self.seats))}
        self.hands: list[LivedHand] = [made[seat] for seat in self.seats]
        self.plans = {seat: HandPlan(made[seat]) for seat in made}
        self.episode_of = [j // hands for j in range(episodes * hands)]
        self.stages: list[BeliefStage] = stages_of(mixture.weights, self.hands, limit, progress)
        self.states = sum(stage.beliefs.shape[1] for stage in self.stages)
        self.seconds = time.process_time() - started

    def learn(self, hand: int, state: int, evidence: int) -> int | None:
        """The state after `evidence` was seen in a hand; None where no opponent of the pool could have shown it."""
        stage = self.stages[hand]
        possible = float(self.hands[hand].evidence[evidence] @ stage.beliefs[:, state]) > 0
        return int(stage.after[evidence, state]) if possible else None


class HandPlan:
    """A hand as arrays. Its branches are numbered, each after those that follow it; the hand's own is the last."""

    def __init__(self, hand: LivedHand) -> None:
        self.evidence = hand.evidence
        """(E, N)"""
        self.decisions: list[tuple[int, list[list[int]]]] = []
        """Each branch with decisions, and for each of these the branch that follows each action."""
        self.number: dict[int, int] = {}
        """By the id of a branch."""
        payoffs: list[Floats] = []
        masses: list[Floats] = []

        def visit(branch: Branch) -> int:
            options = [[visit(after) for after in actions.values()] for actions in branch.decisions.values()]
            mass = np.zeros(len(hand.evidence))
            for ending in branch.outcomes.values():
                mass[ending.evidence] += ending.weight
            nothing = np.zeros(hand.evidence.shape[1])
            payoffs.append(np.sum([nothing, *(ending.payoff for ending in branch.outcomes.values())], axis=0))
            masses.append(mass)
            self.number[id(branch)] = len(payoffs) - 1
            if options:
                self.decisions.append((len(payoffs) - 1, options))
            return len(payoffs) - 1

        visit(hand.root)
        self.payoff = np.array(payoffs)
        """(B, N): what a branch pays by itself, times its probability."""
        self.mass = np.array(masses)
        """(B, E): the weight of each piece of evidence in what a branch ends with by itself."""


class BayesSolution:
    """The optimal learner for one credit in one meeting."""

    def __init__(self, meeting: Meeting, credit: Credit = "sum", gt: float = GT) -> None:
        started = time.process_time()
        self.meeting = meeting
        self._weights = credit_weights(credit, meeting.episodes, gt)
        self._values: list[Floats] = [np.zeros((0, 0))] * len(meeting.hands)
        """Per hand: (K - k, S), what each state earns in each episode from this hand's, k, on."""
        self._asked: tuple[tuple[int, int], Floats] = (-1, -1), np.zeros((0, 0, 0))
        """The state that `choose` was asked about last, and what its branches are worth."""
        for hand in reversed(range(len(meeting.hands))):
            self._values[hand] = np.concatenate([part[:, -1] for part in self._solved(hand)], axis=1)
        self.seconds = time.process_time() - started

    @property
    def value(self) -> BayesValue:
        """What it earns, from the prior on."""
        seconds = self.meeting.seconds + self.seconds
        return BayesValue(tuple(self._values[0][:, 0].tolist()), self.meeting.states, seconds)

    def choose(self, hand: int, state: int, branch: Branch, information_state: str) -> str:
        """The best action at a decision in `branch` of a hand, the first of equals."""
        numbers = self.meeting.plans[self.meeting.seats[hand]].number
        options = branch.decisions[information_state]
        if self._asked[0] != (hand, state):
            self._asked = (hand, state), self._follow(hand, slice(state, state + 1))
        worth = self._asked[1]
        best = self._best(self.meeting.episode_of[hand], worth[:, [numbers[id(after)] for after in options.values()]])
        return list(options)[int(best[0])]

    def _solved(self, hand: int) -> Iterator[Floats]:
        meeting = self.meeting
        size, plan = meeting.stages[hand].beliefs.shape[1], meeting.plans[meeting.seats[hand]]
        each = max(1, min(CHUNK, CELLS // (meeting.episodes * max(plan.mass.shape))))
        return (self._follow(hand, slice(at, at + each)) for at in range(0, size, each))

    def _follow(self, hand: int, states: slice) -> Floats:
        """(K - k, B, S): what each branch of a hand of episode k earns in each episode from k on, decided as best."""
        meeting = self.meeting
        plan, stage, episode = meeting.plans[meeting.seats[hand]], meeting.stages[hand], meeting.episode_of[hand]
        beliefs = stage.beliefs[:, states]
        earned = np.zeros((meeting.episodes - episode, len(plan.payoff), beliefs.shape[1]))
        earned[0] = plan.payoff @ beliefs
        if hand + 1 < len(meeting.hands):
            chance, after = plan.evidence @ beliefs, stage.after[:, states]
            following = self._values[hand + 1]
            for mine, values in zip(earned[::-1], following[::-1], strict=False):  # both end with the last episode
                mine += plan.mass @ (chance * values[after])
        for branch, decisions in plan.decisions:
            for options in decisions:
                each = earned[:, options]
                best = self._best(episode, each)
                earned[:, branch] += np.take_along_axis(each, best[None, None], axis=1)[:, 0]
        return earned

    def _best(self, episode: int, each: Floats) -> NDArray[np.intp]:
        """(S,): which action is best, the first of equals, from (K - k, A, S): what each earns in each episode."""
        equal = np.ones(each.shape[1:], bool)
        for weights in self._weights[:, episode, episode:]:
            worth = np.where(equal, np.tensordot(weights, each, 1), -np.inf)
            best = worth.max(axis=0)
            equal = worth >= best - _TIE * np.abs(best) - _NOTHING
        first: NDArray[np.intp] = equal.argmax(axis=0)
        return first


def meetings(
    game: Game,
    pool: PoolSpec,
    *,
    episodes: int = 3,
    hands: int = 1,
    seat: str = "alternate",
    objective: Objective = "returns",
    limit: int = STATES,
    progress: TellsStates | None = None,
) -> Iterator[Meeting]:
    """One meeting for each first seat of the seat rule, all equally likely."""
    for seat0 in first_seats(game, seat):
        yield Meeting(
            game,
            pool,
            seat0,
            episodes=episodes,
            hands=hands,
            objective=objective,
            alternate=seat == "alternate",
            limit=limit,
            progress=progress,
        )


def first_seats(game: Game, seat: str) -> range:
    """Where the learner may sit in its first hand: `first`, `second`, or anywhere (`alternate`, `fixed`)."""
    if seat not in SEATINGS:
        raise ValueError(f"seat={seat!r} is unknown; choose {', '.join(SEATINGS)}.")
    one = {"first": 0, "second": 1}.get(seat)
    return range(game.facts.players) if one is None else range(one, one + 1)


def bayes_value(
    game: Game,
    pool: PoolSpec,
    *,
    episodes: int = 3,
    hands: int = 1,
    credit: Credit = "sum",
    gt: float = GT,
    seat: str = "alternate",
    objective: Objective = "returns",
    limit: int = STATES,
) -> BayesValue:
    """The value of the learner that is optimal for `credit`, the mean over the first seats; one solution each."""
    met = meetings(game, pool, episodes=episodes, hands=hands, seat=seat, objective=objective, limit=limit)
    return mean_value([BayesSolution(meeting, credit, gt).value for meeting in met])


def mean_value(solved: Sequence[BayesValue]) -> BayesValue:
    """The mean over the first seats; states and seconds are added."""
    return BayesValue(
        per_episode=tuple(sum(parts) / len(solved) for parts in zip(*(one.per_episode for one in solved), strict=True)),
        states=sum(one.states for one in solved),
        seconds=sum(one.seconds for one in solved),
    )
