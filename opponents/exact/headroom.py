"""What memory of earlier episodes is worth in a game against a pool, and what exploration across episodes is worth.

    headroom(KuhnPoker(), "pool:kuhn/paper").adaptation     # .150 chips per hand

All values are per hand, and exact; against a policy whose moves were sampled they are estimates with an error.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from mage_envs.core import ExactPolicy, Game, Policy
from opponents.exact.bayes import (
    GT,
    BayesSolution,
    BayesValue,
    Credit,
    CreditName,
    check_lengths,
    credit_weights,
    first_seats,
    lived_hands,
    mean_value,
    meetings,
)
from opponents.exact.beliefs import STATES, TellsStates
from opponents.exact.best_response import best_nonadaptive, best_response_value
from opponents.exact.hands import TooManyStates
from opponents.exact.sampled import GROUPS, SampledMoves, jackknife_error
from opponents.exact.tree import NotExact, Objective, no_distribution
from opponents.pools import Entry, OpponentPool, PoolSpec, as_pool
from opponents.registry import make_opponent

CREDITS: tuple[CreditName, ...] = ("myopic", "sum", "mage", "last")

SAMPLES = 20
"""Moves in each state of a policy that has to be sampled, for a fair estimate."""


@dataclass(frozen=True, kw_only=True)
class Headroom:
    """The values of the best learners of six kinds against one opponent of a pool, in the game's unit per hand."""

    blind: float
    """Without any memory of earlier hands; the same in every episode."""
    known: float
    """Told who the opponent is."""
    per_episode: Mapping[str, tuple[float, ...]]
    """What the learner that is best for each credit earns in each episode; empty where there are too many states."""
    gt: float
    """The discount of the credit `mage`."""
    states: int
    seconds: float
    """Of CPU."""
    errors: Mapping[str, float] = field(default_factory=dict)
    """Standard errors of `blind`, `known` and `adaptation` where moves were sampled; empty where all is exact."""
    unsolved: str = ""
    """Why `per_episode` is empty."""

    @property
    def adaptation(self) -> float:
        """Adaptation headroom: what it is worth at most to know the opponent."""
        return self.known - self.blind

    @property
    def exploration(self) -> float | None:
        """Exploration headroom: what credit across episodes is worth at most in the last one.

        None where it was not solved; then it is at most the adaptation headroom.
        """
        return self.per_episode["last"][-1] - self.per_episode["myopic"][-1] if self.per_episode else None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**asdict(self), "adaptation": self.adaptation, "exploration": self.exploration}


def headroom(
    game: Game,
    pool: PoolSpec,
    *,
    episodes: int = 3,
    hands: int = 1,
    seat: str = "alternate",
    gt: float = GT,
    weights: Sequence[float] | None = None,
    objective: Objective = "returns",
    samples: int = 0,
    seed: int = 0,
    limit: int = STATES,
    progress: TellsStates | None = None,
) -> Headroom:
    """Solves the six, and the learner that is best for `weights` of the episodes where these are given.

    `samples`: moves in each state of a policy without `distribution`; 0 refuses such a policy with `NotExact`.
    Raises `NotEnumerable` for a game without a tree, ValueError for bad settings.
    """
    started = time.process_time()
    credits: dict[str, Credit] = {**{name: name for name in CREDITS}, **({} if weights is None else {"own": weights})}
    check_lengths(episodes, hands)
    for credit in credits.values():
        credit_weights(credit, episodes, gt)  # what is wrong is told before anything is solved
    single = _SingleHands(
        game=game, pool=as_pool(pool), seats=first_seats(game, seat), objective=objective, samples=samples, seed=seed
    )
    blind, known = single.values()
    errors = single.errors()
    solved: dict[str, list[BayesValue]] = {name: [] for name in credits}
    states, unsolved = 0, ""
    try:
        for meeting in meetings(
            game,
            single.pool,
            episodes=episodes,
            hands=hands,
            seat=seat,
            objective=objective,
            limit=limit,
            progress=progress,
            lived=single.lived,
        ):
            states += meeting.states
            for name, credit in credits.items():
                solved[name].append(BayesSolution(meeting, credit, gt).value)
    except TooManyStates as error:
        solved, states, unsolved = {}, 0, str(error)
    per_episode = {
        name: tuple(value / hands for value in mean_value(values).per_episode) for name, values in solved.items()
    }
    return Headroom(
        blind=blind,
        known=known,
        per_episode=per_episode,
        gt=gt,
        states=states,
        seconds=time.process_time() - started,
        errors=errors,
        unsolved=unsolved,
    )


class _SingleHands:
    """A pool as exact policies, sampled where need be, and what one hand against it is worth."""

    def __init__(
        self, game: Game, pool: OpponentPool, seats: Sequence[int], objective: Objective, samples: int, seed: int
    ) -> None:
        self._game, self._seats, self._objective = game, seats, objective
        self._sampled: dict[int, SampledMoves] = {}
        """By the place in the pool."""
        self._known: dict[int, float] = {}
        """The value of a best response, by the id of a policy of `pool`."""
        policies: list[tuple[Entry, float]] = []
        for place, (entry, weight) in enumerate(zip(pool.entries, pool.weights, strict=True)):
            policy: Policy = make_opponent(entry, game)
            if not isinstance(policy, ExactPolicy):
                if samples == 0:
                    raise NotExact(f"{no_distribution(entry)} Sampled moves give an estimate: samples={SAMPLES}.")
                self._sampled[place] = SampledMoves(game, entry, samples, np.random.default_rng(seed))
                policy = self._sampled[place].table()
            policies.append((policy, weight))
        self.pool = OpponentPool(policies)
        self.lived = lived_hands(game, self.pool, objective)

    def values(self, without: int | None = None) -> tuple[float, float]:
        """(blind, known), the means over the seats; without one group of the samples where it is named."""
        tables = {place: moves.table(without) for place, moves in self._sampled.items()} if without is not None else {}
        entries = [tables.get(place, entry) for place, entry in enumerate(self.pool.entries)]
        pool = OpponentPool(zip(entries, self.pool.weights, strict=True))
        blind = [best_nonadaptive(self._game, pool, seat, self._objective).value for seat in self._seats]
        known = sum(
            weight * (self._best(entry) if place in tables else self._remembered(entry))
            for place, (entry, weight) in enumerate(zip(pool.entries, pool.weights, strict=True))
        )
        return sum(blind) / len(blind), known

    def errors(self) -> dict[str, float]:
        """Standard errors; none where nothing was sampled."""
        if not self._sampled:
            return {}
        each = [self.values(group) for group in range(GROUPS)]
        return {
            "blind": jackknife_error([blind for blind, _ in each]),
            "known": jackknife_error([known for _, known in each]),
            "adaptation": jackknife_error([known - blind for blind, known in each]),
        }

    def _remembered(self, entry: Entry) -> float:
        if id(entry) not in self._known:
            self._known[id(entry)] = self._best(entry)
        return self._known[id(entry)]

    def _best(self, entry: Entry) -> float:
        values = [best_response_value(self._game, entry, seat, self._objective) for seat in self._seats]
        return sum(values) / len(values)
