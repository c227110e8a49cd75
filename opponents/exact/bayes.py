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
from opponents.exact.beliefs import CHUNK, STATES, BeliefStage, TellsStates, stages_of
from opponents.exact.hands import Branch, Floats, LivedHand, Places
from opponents.exact.plans import CELLS, Best, HandPlan, LivedHands
from opponents.exact.tree import Objective, check_seat, exact_policy
from opponents.pools import PoolSpec, as_pool

CreditName = Literal["myopic", "sum", "mage", "last"]
Credit = CreditName | Sequence[float] | Sequence[Sequence[float]]
"""What the learner is paid: a name, or a weight for each episode's return; as (K, K), for the decisions of each episode
a row of weights, which need not agree (each decision then counts on those to come as they will be taken)."""
GT = 0.6
"""The discount across episodes of the credit `mage` where none is given."""
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
        lived: LivedHands | None = None,
        start: int = 0,
        prior: Sequence[float] | None = None,
    ) -> None:
        """Seats alternate from hand to hand, or stay at `seat0`. `lived`: the hands, where somebody has made them.
        `start`: the number of hands that are over; all else is then about the rest, before which `prior` is believed.

        Raises `NotExact` for an opponent without `distribution`, `NotEnumerable` for a game without a tree,
        `TooManyStates` above `limit` states.
        """
        started = time.process_time()
        check_seat(game, seat0)
        check_lengths(episodes, hands)
        mixture = as_pool(pool)
        lived = lived or lived_hands(game, pool, objective)
        self.episodes = episodes
        left = range(start, episodes * hands)
        self.seats = [(seat0 + j) % game.facts.players if alternate else seat0 for j in left]
        self.episode_of = [j // hands for j in left]
        met = [lived.seated(seat, episode) for seat, episode in zip(self.seats, self.episode_of, strict=True)]
        self.hands: list[LivedHand] = [hand for hand, _ in met]
        self.plans: list[HandPlan] = [plan for _, plan in met]
        self.stages: list[BeliefStage] = stages_of(prior or mixture.weights, self.hands, limit, progress)
        self.states = sum(stage.beliefs.shape[1] for stage in self.stages)
        self.seconds = time.process_time() - started

    def learn(self, hand: int, state: int, evidence: int) -> int | None:
        """The state after `evidence` was seen in a hand; None where no opponent of the pool could have shown it."""
        stage = self.stages[hand]
        possible = float(self.hands[hand].evidence[evidence] @ stage.beliefs[:, state]) > 0
        return int(stage.after[evidence, state]) if possible else None

    def earned(self, hand: int, states: slice, following: Floats | None) -> Floats:
        """(K - k, B, S): what each branch of a hand of episode k earns in each episode from k on, but for its own
        decisions; `following`, (K - k', S'), is what each state before the next hand earns."""
        plan, stage = self.plans[hand], self.stages[hand]
        beliefs = stage.beliefs[:, states]
        earned = np.zeros((self.episodes - self.episode_of[hand], len(plan.tree.payoff), beliefs.shape[1]))
        earned[0] = plan.tree.payoff @ beliefs
        if following is not None:
            chance, after = plan.evidence @ beliefs, stage.after[:, states]
            for mine, values in zip(earned[::-1], following[::-1], strict=False):  # both end with the last episode
                plan.teach(mine, chance * values[after])
        return earned

    def parts(self, hand: int) -> list[slice]:
        """The states before a hand, so many at a time that memory is bounded."""
        size = self.stages[hand].beliefs.shape[1]
        each = max(1, min(CHUNK, CELLS // (self.episodes * self.plans[hand].cells)))
        return [slice(at, min(at + each, size)) for at in range(0, size, each)]


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
            parts = [self._follow(hand, states)[:, -1] for states in meeting.parts(hand)]
            self._values[hand] = np.concatenate(parts, axis=1)
        self.seconds = time.process_time() - started

    @property
    def value(self) -> BayesValue:
        """What it earns, from the prior on."""
        seconds = self.meeting.seconds + self.seconds
        return BayesValue(tuple(self._values[0][:, 0].tolist()), self.meeting.states, seconds)

    def worth(self, hand: int, state: int) -> Floats:
        """(B,): what each branch of a hand is worth from there on, as the credit counts, times its probability."""
        if self._asked[0] != (hand, state):
            self._asked = (hand, state), self._follow(hand, slice(state, state + 1))
        episode = self.meeting.episode_of[hand]
        worth: Floats = np.tensordot(self._weights[0, episode, episode:], self._asked[1][:, :, 0], 1)
        return worth

    def choose(self, hand: int, state: int, branch: Branch, information_state: str) -> str:
        """The best action at a decision in `branch` of a hand, the first of equals."""
        numbers = self.meeting.plans[hand].number
        options = branch.decisions[information_state]
        if self._asked[0] != (hand, state):
            self._asked = (hand, state), self._follow(hand, slice(state, state + 1))
        worth = self._asked[1]
        each = worth[:, None, [numbers[id(after)] for after in options.values()]]
        return list(options)[int(self._best(self.meeting.episode_of[hand])(each)[0, 0])]

    def _follow(self, hand: int, states: slice) -> Floats:
        """(K - k, B, S): what each branch of a hand of episode k earns in each episode from k on, decided as best."""
        following = self._values[hand + 1] if hand + 1 < len(self._values) else None
        earned = self.meeting.earned(hand, states, following)
        self.meeting.plans[hand].tree.decide(earned, self._best(self.meeting.episode_of[hand]))
        return earned

    def _best(self, episode: int) -> Best:
        """Of (K - k, D, A, S), what each action earns in each episode, which is best, (D, S): the first of equals."""
        tiers = self._weights[:, episode, episode:]

        def best_of(each: Floats) -> Places:
            worth = np.tensordot(tiers[0], each, 1)
            best: Places = worth.argmax(axis=1)
            equal = _as_good(worth, 1)
            tied = np.nonzero(equal.sum(axis=1) > 1)
            if len(tied[0]):
                each, equal = each[:, tied[0], :, tied[1]], equal[tied[0], :, tied[1]]
                for weights in tiers[1:]:
                    equal = _as_good(np.where(equal, each.transpose(0, 2, 1) @ weights, -np.inf), 1)
                best[tied] = equal.argmax(axis=1)
            return best

        return best_of


def _as_good(worth: Floats, axis: int) -> NDArray[np.bool_]:
    """What is as good as the best along an axis, but for rounding."""
    best = worth.max(axis=axis, keepdims=True)
    good: NDArray[np.bool_] = worth >= best - _TIE * np.abs(best) - _NOTHING
    return good


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
    lived: LivedHands | None = None,
) -> Iterator[Meeting]:
    """One meeting for each first seat of the seat rule, all equally likely; they share the hands, `lived`."""
    lived = lived or lived_hands(game, pool, objective)
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
            lived=lived,
        )


def lived_hands(game: Game, pool: PoolSpec, objective: Objective = "returns") -> LivedHands:
    """The hands against the opponents of a pool; raises `NotExact` for one without `distribution`."""
    return LivedHands(game, [exact_policy(entry, game) for entry in as_pool(pool).entries], objective)


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
