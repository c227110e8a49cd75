"""Optimal learners over several episodes against one unknown opponent, drawn from a known pool.

The method is exact dynamic programming over (hand, belief). The objective is a weighted sum of the episodes' returns.
The weights may depend on the episode of the decision, so one program solves every kind of credit:

* `sum`: all episodes equally (cumulative credit with gt = 1).
* `mage`: differential credit with discount gt, which equals the weights of `differential_weights`.
* `last`: the last episode alone.
* `myopic`: each decision maximises its own episode, given all earlier hands (single-episode credit).
* Custom weights: one per episode, or one row per episode of the decision.

Among equally good actions, the learner plays the one with the largest return in the present episode, then in all
remaining episodes. The forward pass, `stages_of`, finds the states. The backward pass solves the hand in all states at
once, from the last hand to the first.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from mage_envs.core import Game
from mage_envs.env import SEATINGS
from mage_envs.games.table_game import TableSeries
from mage_envs.opponents.exact.beliefs import CHUNK, STATES, BeliefStage, TellsStates, find_stages
from mage_envs.opponents.exact.learner_hands import Branch, Floats, LearnerHand, Places
from mage_envs.opponents.exact.modes import Memories, Modes
from mage_envs.opponents.exact.plans import CELLS, Best, HandPlan, LearnerHands
from mage_envs.opponents.exact.series import without_repetition
from mage_envs.opponents.exact.tree import Objective, check_seat
from mage_envs.opponents.pools import PoolSpec, as_pool

CreditName = Literal["myopic", "sum", "mage", "last"]
Credit = CreditName | Sequence[float] | Sequence[Sequence[float]]
"""The learner's objective: a name, or the weights of the K episodes' returns, (K,) or (K, K).

Row k of a (K, K) array holds the weights for the decisions of episode k. The rows may differ. Each decision then
assumes that later decisions follow their own weights.
"""
GT = 0.6
"""Default discount across episodes of the credit `mage`."""
_TIE = 1e-10
"""Relative difference below which two actions are equally good."""
_NOTHING = 1e-15
"""Absolute difference that counts as rounding, for values near 0."""


def differential_weights(episodes: int, gt: float) -> tuple[float, ...]:
    """Return the weight of each episode's return in the differential credit with discount `gt`.

    The credit is the sum of gt^k (R_k - R_{k-1}) with R_{-1} = 0. R_k appears in two terms, so its weight is
    gt^k - gt^(k+1). The last episode appears only once, with the weight gt^k.
    """
    return tuple(gt**k - (gt ** (k + 1) if k + 1 < episodes else 0.0) for k in range(episodes))


def credit_weights(credit: Credit, episodes: int, gt: float = GT) -> Floats:
    """Return the weights of an objective and of its two tie-breakers, (3, K, K).

    Entry (i, k, l) is the weight of episode l's return for a decision in episode k. Index i = 0 is the objective. Among
    equally good actions, i = 1 counts the present episode, then i = 2 all remaining episodes.

    Args:
        credit: Name of a credit, or weights of shape (K,) or (K, K).
        episodes: Number of episodes K.
        gt: Discount across episodes of the credit `mage`.

    Raises:
        ValueError: If the name is unknown, `gt` is outside [0, 1], or the weights are not finite with the sum 1.
    """
    if not 0 <= gt <= 1:
        raise ValueError(f"gt must be between 0 and 1, got {gt}.")
    present_episode, remaining_episodes = np.eye(episodes), np.triu(np.ones((episodes, episodes)))
    if not isinstance(credit, str):
        weights = np.array(credit, float)
        if weights.shape not in ((episodes,), (episodes, episodes)) or not np.isfinite(weights).all():
            raise ValueError(f"The weights must be {episodes} numbers, one for each episode, got {tuple(credit)}.")
        # Custom weights are a weighted mean of the episodes, so any other sum is a mistake of the user.
        sums = np.round(weights.sum(axis=-1), 6)
        if (sums != 1).any():
            raise ValueError(f"The weights must sum to 1, got {tuple(credit)}, which sum to {sums}.")
    elif credit == "myopic":
        return np.stack([present_episode, present_episode, remaining_episodes])
    elif credit == "sum":
        weights = np.ones(episodes)
    elif credit == "mage":
        weights = np.array(differential_weights(episodes, gt))
    elif credit == "last":
        weights = np.eye(episodes)[-1]
    else:
        raise ValueError(f"credit={credit!r} is unknown; choose {', '.join(get_args(CreditName))}, or pass weights.")
    return np.stack([np.broadcast_to(weights, (episodes, episodes)), present_episode, remaining_episodes])


def check_lengths(episodes: int, hands: int) -> None:
    """Raise ValueError unless there is at least one episode of one hand."""
    if episodes < 1 or hands < 1:
        raise ValueError(f"There must be at least one episode of one hand, got {episodes=}, {hands=}.")


class BayesValue(NamedTuple):
    """The value of an optimal learner."""

    per_episode: tuple[float, ...]
    """Expected payoff of each episode, summed over its hands."""
    states: int
    """Number of states of belief."""
    seconds: float
    """CPU time in seconds."""

    @property
    def total(self) -> float:
        """Expected payoff of all episodes together."""
        return sum(self.per_episode)


class Meeting:
    """The hands and states of belief of a pool and a first seat, for any objective.

    Shapes use N opponents, K episodes, B branches of a hand, S states and E pieces of evidence.
    """

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
        learner_hands: LearnerHands | None = None,
        start: int = 0,
        prior: Sequence[float] | None = None,
        memories: Memories | None = None,
        first_hand: tuple[LearnerHand, HandPlan] | None = None,
    ) -> None:
        """Find the states of belief before every hand.

        Args:
            game: Game with an enumerable tree.
            pool: Opponents and their prior probabilities.
            seat0: Learner's seat in the first hand of the meta-episode.
            hands: Hands per episode.
            objective: Payoff that is maximised, `returns` or `success`.
            alternate: True if the seat changes from hand to hand.
            limit: Maximum number of states.
            progress: Callback during the forward pass.
            learner_hands: Hands of the same game and pool, if they exist already.
            start: Number of hands that are over; the meeting consists of the remaining ones.
            prior: Probability of each mode before hand `start` (default: the pool's weights).
            memories: Memory of each mode before hand `start` (default: before the first hand).
            first_hand: The rest of hand `start`, if it has begun (default: the whole hand).

        Raises:
            NotExact: If an opponent has no `distribution`.
            NotEnumerable: If the tree of the game cannot be enumerated.
            TooManyStates: If there are more than `limit` states.
        """
        start_time = time.process_time()
        check_seat(game, seat0)
        check_lengths(episodes, hands)
        mixture = as_pool(pool)
        # A task of a series depends on those before. So its opponents also draw it, and the hands differ.
        if isinstance(game, TableSeries):
            game, mixture = without_repetition(game, mixture, episodes, hands)
            learner_hands = None
        learner_hands = learner_hands or build_hands(game, mixture, objective)
        self.episodes = episodes
        hand_numbers = range(start, episodes * hands)
        self.seats = [(seat0 + j) % game.spec.players if alternate else seat0 for j in hand_numbers]
        self.episode_of = [j // hands for j in hand_numbers]
        self.modes = learner_hands.modes
        """The N opponents; one that changes between episodes has several entries."""
        self.stages: list[BeliefStage] = find_stages(
            learner_hands,
            list(zip(self.seats, self.episode_of, strict=True)),
            prior or self.modes.prior,
            self.modes.start if memories is None else memories,
            limit,
            progress,
            first_hand,
        )
        self.states = sum(stage.size for stage in self.stages)
        self.seconds = time.process_time() - start_time

    def learn(self, hand: int, state: int, evidence: int) -> int | None:
        """Return the state after a piece of evidence in a hand, or None if no opponent of the pool can produce it."""
        group = self.stages[hand].group_of(state)
        # `successors` holds 0 for impossible evidence, which is also a valid state; so check the probability first.
        possible = float(group.hand.evidence[evidence] @ group.beliefs[:, state - group.start]) > 0
        return int(group.successors[evidence, state - group.start]) if possible else None

    def branch_payoffs(self, hand: int, states: slice, next_values: Floats | None) -> Floats:
        """Return what each branch of a hand of episode k earns in each episode from k on, without its decisions.

        The payoffs are multiplied by the branches' probabilities, (K - k, B, S). `next_values` is the value of each
        state before the next hand, in episode k', (K - k', S'), or None after the last hand.
        """
        group = self.stages[hand].group_of(states.start)
        states = slice(states.start - group.start, states.stop - group.start)
        plan, beliefs = group.plan, group.beliefs[:, states]
        payoffs = np.zeros((self.episodes - self.episode_of[hand], len(plan.tree.payoff), beliefs.shape[1]))
        payoffs[0] = plan.tree.payoff @ beliefs
        if next_values is not None:
            chance, successors = plan.evidence @ beliefs, group.successors[:, states]
            # Both arrays end with the last episode, so they are aligned from the end. If the next hand belongs to the
            # next episode, `next_values` has one row less: this episode earns nothing after its last hand.
            for episode_payoffs, values in zip(payoffs[::-1], next_values[::-1], strict=False):
                plan.add_later_hands(episode_payoffs, chance * values[successors])
        return payoffs

    def parts(self, hand: int) -> list[slice]:
        """Return slices of the states before a hand, each in one group, small enough to bound the memory of a step."""
        slices = []
        for group in self.stages[hand].groups:
            stop = group.start + group.beliefs.shape[1]
            part_size = max(1, min(CHUNK, CELLS // (self.episodes * group.plan.cells)))
            slices += [slice(at, min(at + part_size, stop)) for at in range(group.start, stop, part_size)]
        return slices


class BayesSolution:
    """The optimal learner for one credit in one meeting."""

    def __init__(self, meeting: Meeting, credit: Credit = "sum", gt: float = GT) -> None:
        """Solve the meeting.

        Args:
            gt: Discount across episodes of the credit `mage`.
        """
        start_time = time.process_time()
        self.meeting = meeting
        self._weights = credit_weights(credit, meeting.episodes, gt)
        self._values: list[Floats] = [np.zeros((0, 0))] * len(meeting.stages)
        """For each hand of episode k: the expected payoff of each state in each episode from k on, (K - k, S)."""
        self._cache: tuple[tuple[int, int], Floats] = (-1, -1), np.zeros((0, 0, 0))
        """Last (hand, state) of `choose` or `worth`, with the payoffs of its branches."""
        # Backward induction: a hand's decisions need the values of the states before the next hand.
        for hand in reversed(range(len(meeting.stages))):
            # The last branch is the root, so its row is the value of the whole hand.
            parts = [self.follow(hand, states)[:, -1] for states in meeting.parts(hand)]
            self._values[hand] = np.concatenate(parts, axis=1)
        self.seconds = time.process_time() - start_time

    @property
    def value(self) -> BayesValue:
        """Value of the learner from the start of the meeting."""
        seconds = self.meeting.seconds + self.seconds
        return BayesValue(tuple(self._values[0][:, 0].tolist()), self.meeting.states, seconds)

    def worth(self, hand: int, state: int) -> Floats:
        """Return the value of each branch of a hand by the objective, times the branch's probability, (B,)."""
        # All decisions of a hand need the payoffs of the same state, so the last ones are cached.
        if self._cache[0] != (hand, state):
            self._cache = (hand, state), self.follow(hand, slice(state, state + 1))
        episode = self.meeting.episode_of[hand]
        worth: Floats = np.tensordot(self._weights[0, episode, episode:], self._cache[1][:, :, 0], 1)
        return worth

    def choose(self, hand: int, state: int, branch: Branch, information_state: str) -> str:
        """Return the best action at a decision, the first if several are equal after both tie-breakers.

        Args:
            state: State before the hand.
            branch: Branch of the hand that contains the decision.
            information_state: Information state of the decision.
        """
        numbers = self.meeting.stages[hand].group_of(state).plan.number
        options = branch.decisions[information_state]
        if self._cache[0] != (hand, state):
            self._cache = (hand, state), self.follow(hand, slice(state, state + 1))
        worth = self._cache[1]
        # `_best` expects (K - k, D, A, S); here there is one decision and one state.
        option_payoffs = worth[:, None, [numbers[id(option)] for option in options.values()]]
        return list(options)[int(self._best(self.meeting.episode_of[hand])(option_payoffs)[0, 0])]

    def follow(self, hand: int, states: slice) -> Floats:
        """Return what each branch of a hand earns in each episode from k on, with optimal decisions, (K - k, B, S)."""
        next_values = self._values[hand + 1] if hand + 1 < len(self._values) else None
        payoffs = self.meeting.branch_payoffs(hand, states, next_values)
        self._plan(hand, states).tree.decide(payoffs, self._best(self.meeting.episode_of[hand]))
        return payoffs

    def choices(self, hand: int, states: slice) -> list[Places]:
        """Return the best action of each decision in these states, (D, S) per group of `DecisionTree.decisions`."""
        best, actions = self._best(self.meeting.episode_of[hand]), list[Places]()

        def record_actions(option_payoffs: Floats) -> Places:
            actions.append(best(option_payoffs))
            return actions[-1]

        next_values = self._values[hand + 1] if hand + 1 < len(self._values) else None
        self._plan(hand, states).tree.decide(self.meeting.branch_payoffs(hand, states, next_values), record_actions)
        return actions

    def _plan(self, hand: int, states: slice) -> HandPlan:
        return self.meeting.stages[hand].group_of(states.start).plan

    def _best(self, episode: int) -> Best:
        """Return the function that chooses the best actions in an episode.

        It maps the actions' payoffs in each episode, (K - k, D, A, S), to indices of actions, (D, S).
        """
        tiers = self._weights[:, episode, episode:]

        def best_of(payoffs: Floats) -> Places:
            worth = np.tensordot(tiers[0], payoffs, 1)
            best: Places = worth.argmax(axis=1)
            equal = _as_good(worth, 1)
            tied = np.nonzero(equal.sum(axis=1) > 1)
            # Ties are rare, so the tie-breakers look at tied decisions only. Two index arrays with a slice between them
            # move to the front in numpy: `payoffs` becomes (T, K - k, A) for T tied decisions.
            if len(tied[0]):
                payoffs, equal = payoffs[:, tied[0], :, tied[1]], equal[tied[0], :, tied[1]]
                for weights in tiers[1:]:
                    equal = _as_good(np.where(equal, payoffs.transpose(0, 2, 1) @ weights, -np.inf), 1)
                best[tied] = equal.argmax(axis=1)
            return best

        return best_of


def _as_good(worth: Floats, axis: int) -> NDArray[np.bool_]:
    """Return a mask of the entries that equal the maximum along an axis, up to rounding."""
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
    learner_hands: LearnerHands | None = None,
) -> Iterator[Meeting]:
    """Yield one meeting for each first seat of a seat rule; the first seats are equally likely.

    Args:
        game: Game with an enumerable tree.
        pool: Opponents and their prior probabilities.
        hands: Hands per episode.
        seat: Seat rule: `first`, `second`, `alternate` or `fixed`.
        objective: Payoff that is maximised, `returns` or `success`.
        limit: Maximum number of states of one meeting.
        progress: Callback during the forward pass.
        learner_hands: Hands of the same game and pool, if they exist already; all meetings share them.

    Raises the errors of `Meeting`, and ValueError if the seat rule is unknown.
    """
    learner_hands = learner_hands or build_hands(game, pool, objective)
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
            learner_hands=learner_hands,
        )


def build_hands(game: Game, pool: PoolSpec, objective: Objective = "returns") -> LearnerHands:
    """Return the hands of a game against the opponents of a pool.

    Args:
        game: Game with an enumerable tree.
        objective: Payoff of the hands, `returns` or `success`.

    Raises NotExact if an opponent has no `distribution`, NotEnumerable if the game has no enumerable tree.
    """
    return LearnerHands(game, Modes(game, as_pool(pool)), objective)


def first_seats(game: Game, seat: str) -> range:
    """Return the learner's possible seats in its first hand: one for `first` or `second`, else all."""
    if seat not in SEATINGS:
        raise ValueError(f"seat={seat!r} is unknown; choose {', '.join(SEATINGS)}.")
    only_seat = {"first": 0, "second": 1}.get(seat)
    return range(game.spec.players) if only_seat is None else range(only_seat, only_seat + 1)


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
    """Return the value of the learner that is optimal for `credit`, averaged over the first seats.

    The arguments are those of `meetings`, besides two. Raises the errors of `meetings` and `credit_weights`.

    Args:
        gt: Discount across episodes of the credit `mage`.
    """
    seat_meetings = meetings(game, pool, episodes=episodes, hands=hands, seat=seat, objective=objective, limit=limit)
    return mean_value([BayesSolution(meeting, credit, gt).value for meeting in seat_meetings])


def mean_value(values: Sequence[BayesValue]) -> BayesValue:
    """Return the mean value over the first seats, with the sums of states and seconds."""
    return BayesValue(
        per_episode=tuple(
            sum(parts) / len(values) for parts in zip(*(value.per_episode for value in values), strict=True)
        ),
        states=sum(value.states for value in values),
        seconds=sum(value.seconds for value in values),
    )
