"""The Bayes-optimal adaptive value: the most that a learner can earn over several episodes against one opponent that
was drawn from a known pool and is not named.

Exact dynamic programming over beliefs. A belief is one number per opponent, the probability of all that was seen so
far (times the pool's weight), up to a common factor: the value is proportional to that factor, so that beliefs which
differ by it alone are one state, and so are hands seen in another order (event counts). Forwards, the states of each
hand are those that some outcome leads to; backwards, each state's hand is solved by its decisions, last hand first.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mage_envs.core import Game
from opponents.exact.hands import Branch, LivedHand, TooManyStates, hand_of
from opponents.exact.tree import Objective, check_seat, exact_policy, payoff_of, roots_of
from opponents.pools import PoolSpec, as_pool

Floats = NDArray[np.float64]
STATES = 15_000_000
"""Most states of a problem that is solved (about 2 GB of memory)."""
_CHUNK = 100_000
_GRID = 1e11
"""Beliefs whose logarithms agree to 1 / _GRID are one state."""
_ODD = np.uint64(0x9E3779B97F4A7C15)


class BayesValue(NamedTuple):
    """What the Bayes-optimal learner earns."""

    total: float
    """Of the objective: over all episodes, or in the last one."""
    per_episode: tuple[float, ...]
    """Expected payoff of each episode under that optimal policy, all hands of the episode together."""
    states: int
    seconds: float


class Stage(NamedTuple):
    """The states before one hand, and where the hand leads from each."""

    beliefs: Floats
    """(S, N), each row's largest entry 1."""
    keys: NDArray[np.uint64]
    """(S,), sorted: the hash of each row."""
    after: NDArray[np.int32]
    """(S, E): state of the next hand after each piece of evidence, -1 where it cannot be."""
    scale: Floats
    """(S, E): the factor that the next belief was divided by."""


class BayesSolution:
    """The solved problem for one first seat; `value` and `choose` read it."""

    def __init__(
        self,
        game: Game,
        pool: PoolSpec,
        seat0: int,
        *,
        episodes: int = 3,
        hands: int = 1,
        last_only: bool = False,
        objective: Objective = "returns",
        alternate: bool = True,
        limit: int = STATES,
    ) -> None:
        """`last_only` counts the last episode alone. Seats alternate from hand to hand, or stay at `seat0`.

        Raises `NotExact` for an opponent without `distribution`, `TooManyStates` above `limit` states.
        """
        started = time.perf_counter()
        check_seat(game, seat0)
        mixture = as_pool(pool)
        opponents = [exact_policy(entry, game) for entry in mixture.entries]
        roots, payoff = roots_of(game), payoff_of(objective)
        self.seats = [(seat0 + j) % game.facts.players if alternate else seat0 for j in range(episodes * hands)]
        made = {seat: hand_of(roots, opponents, seat, payoff) for seat in sorted(set(self.seats))}
        self.hands: list[LivedHand] = [made[seat] for seat in self.seats]
        self.episode_of = [j // hands for j in range(episodes * hands)]
        self._counts = np.array([0.0] * (episodes - 1) + [1.0]) if last_only else np.ones(episodes)
        weights = np.array(mixture.weights)
        self._factor = float(weights.max())
        self.prior: Floats = weights / weights.max()
        self.stages = _forward(self.prior, self.hands, limit, mixture.entries)
        self._values: list[Floats] = [np.zeros((0, episodes))] * len(self.hands)
        """Per hand: (S, K), what each state earns in each episode from this hand on."""
        for j in reversed(range(len(self.hands))):
            size = len(self.stages[j].beliefs)
            parts = [self._solve(j, slice(at, at + _CHUNK)) for at in range(0, size, _CHUNK)]
            self._values[j] = np.concatenate(parts)
        self.states = sum(len(stage.beliefs) for stage in self.stages)
        self.seconds = time.perf_counter() - started

    @property
    def value(self) -> BayesValue:
        """The optimal value and what it is made of."""
        earned = self._factor * self._values[0][0]
        return BayesValue(float(earned @ self._counts), tuple(earned.tolist()), self.states, self.seconds)

    def learn(self, hand: int, state: int, evidence: int) -> int | None:
        """The state after `evidence` was seen in a hand; None where no opponent of the pool could have shown it."""
        after = int(self.stages[hand].after[state, evidence])
        return None if after < 0 else after

    def choose(self, hand: int, state: int, options: Mapping[str, Branch]) -> str:
        """The best action among `options` of a decision, the first of equals."""
        rows = slice(state, state + 1)
        worth = {action: float((self._follow(hand, rows, b) @ self._counts)[0]) for action, b in options.items()}
        return max(worth, key=lambda action: round(worth[action], 12))

    def _solve(self, hand: int, rows: slice) -> Floats:
        return self._follow(hand, rows, self.hands[hand].root)

    def _follow(self, hand: int, rows: slice, branch: Branch) -> Floats:
        """(S, K): what is earned from `branch` of a hand on, in the states `rows`, when all decisions are best."""
        stage = self.stages[hand]
        beliefs = stage.beliefs[rows]
        earned = np.zeros((len(beliefs), len(self._counts)))
        now = earned[:, self.episode_of[hand]]
        goes_on = hand + 1 < len(self.hands)
        for outcome in branch.outcomes.values():
            now += beliefs @ outcome.payoff
            if goes_on:
                after = stage.after[rows, outcome.evidence]
                scale = outcome.weight * stage.scale[rows, outcome.evidence]
                earned += scale[:, None] * self._values[hand + 1][after]
        for options in branch.decisions.values():
            each = np.stack([self._follow(hand, rows, following) for following in options.values()])
            best = (each @ self._counts).argmax(axis=0)
            earned += each[best, np.arange(len(beliefs))]
        return earned


def bayes_value(
    game: Game,
    pool: PoolSpec,
    *,
    episodes: int = 3,
    hands: int = 1,
    last_only: bool = False,
    objective: Objective = "returns",
    limit: int = STATES,
) -> BayesValue:
    """The Bayes-optimal value over `episodes` of `hands` each, seats alternating, the mean over the first seats.

    `last_only`: the best that the last episode can be made worth. The per-episode values are sums over the hands.
    """
    options = {"episodes": episodes, "hands": hands, "last_only": last_only, "objective": objective, "limit": limit}
    solved = [BayesSolution(game, pool, seat0, **options).value for seat0 in range(game.facts.players)]  # type: ignore[arg-type]
    share = 1 / len(solved)
    return BayesValue(
        share * sum(one.total for one in solved),
        tuple(share * sum(parts) for parts in zip(*(one.per_episode for one in solved), strict=True)),
        sum(one.states for one in solved),
        sum(one.seconds for one in solved),
    )


def _forward(prior: Floats, hands: Sequence[LivedHand], limit: int, names: Sequence[object]) -> list[Stage]:
    stages = []
    beliefs, keys = prior[None, :], _keys(prior[None, :])
    count = 1
    for hand in hands[:-1]:
        new, new_keys = _successors(beliefs, hand)
        count += len(new)
        if count > limit:
            raise TooManyStates(
                f"The pool of {len(names)} has more than {limit:,} states of belief within {len(hands)} hands; take "
                "fewer episodes, hands or opponents, or raise the limit."
            )
        stages.append(Stage(beliefs, keys, *_links(beliefs, hand, new, new_keys)))
        beliefs, keys = new, new_keys
    nowhere = np.zeros((len(beliefs), 0))
    return [*stages, Stage(beliefs, keys, nowhere.astype(np.int32), nowhere)]


def _updates(beliefs: Floats, hand: LivedHand) -> Iterator[tuple[slice, Floats, Floats]]:
    """Part by part: rows of `beliefs`, the beliefs after each piece of evidence (S * E, N), their factors (S * E,)."""
    for at in range(0, len(beliefs), _CHUNK):
        rows = slice(at, at + _CHUNK)
        after = (beliefs[rows, None, :] * hand.evidence[None, :, :]).reshape(-1, beliefs.shape[1])
        scale = after.max(axis=1)
        after /= np.where(scale > 0, scale, 1.0)[:, None]
        yield rows, after, scale


def _successors(beliefs: Floats, hand: LivedHand) -> tuple[Floats, NDArray[np.uint64]]:
    """All beliefs that one hand can lead to, once each, in the order of their keys."""
    found, found_keys = [], []
    for _, after, scale in _updates(beliefs, hand):
        possible = after[scale > 0]
        keys, first = np.unique(_keys(possible), return_index=True)
        found.append(possible[first])
        found_keys.append(keys)
    keys, first = np.unique(np.concatenate(found_keys), return_index=True)
    return np.concatenate(found)[first], keys


def _links(
    beliefs: Floats, hand: LivedHand, new: Floats, new_keys: NDArray[np.uint64]
) -> tuple[NDArray[np.int32], Floats]:
    """`after` and `scale` of the beliefs' stage."""
    shape = (len(beliefs), len(hand.evidence))
    links, factors = np.full(shape, -1, np.int32), np.zeros(shape)
    for rows, after, scale in _updates(beliefs, hand):
        where = np.searchsorted(new_keys, _keys(after)).clip(max=len(new) - 1)
        possible = scale > 0
        if not np.allclose(new[where[possible]], after[possible], rtol=1e-9, atol=0):
            raise ArithmeticError("Two beliefs share a hash; please report this pool.")
        links[rows] = np.where(possible, where, -1).reshape(-1, shape[1])
        factors[rows] = scale.reshape(-1, shape[1])
    return links, factors


def _keys(beliefs: Floats) -> NDArray[np.uint64]:
    """(S,): a hash of each row, equal for beliefs that agree to the grid."""
    with np.errstate(divide="ignore"):
        logs = np.where(beliefs > 0, np.log(np.where(beliefs > 0, beliefs, 1.0)), 1.0)
    cells = np.rint(logs * _GRID).astype(np.int64).view(np.uint64)
    state = np.zeros(len(beliefs), np.uint64)
    for column in cells.T:
        state = (state ^ column) * _ODD
        state ^= state >> np.uint64(29)
    return state
