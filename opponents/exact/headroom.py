"""What memory of earlier episodes is worth in a game against a pool, and what exploration across episodes is worth.

    headroom(KuhnPoker(), "pool:kuhn/paper").adaptation     # .150 chips per hand

All values are per hand, and exact; against a policy whose moves were sampled they are estimates with bounds.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mage_envs.core import Game
from opponents.exact.bayes import (
    GT,
    BayesSolution,
    BayesValue,
    Credit,
    CreditName,
    check_lengths,
    credit_weights,
    first_seats,
    mean_value,
    meetings,
)
from opponents.exact.beliefs import STATES, TellsStates
from opponents.exact.hands import TooManyStates
from opponents.exact.single_hands import Bounds, SingleHands
from opponents.exact.tree import Objective
from opponents.pools import PoolSpec, as_pool

CREDITS: tuple[CreditName, ...] = ("myopic", "sum", "mage", "last")


@dataclass(frozen=True, kw_only=True)
class Headroom:
    """The values of the best learners of six kinds against one opponent of a pool, in the game's unit per hand."""

    blind_per_episode: tuple[float, ...]
    """Without any memory of earlier episodes; the same in each, unless an opponent changes between them."""
    known_per_episode: tuple[float, ...]
    """If the opponent is named to the learner."""
    per_episode: Mapping[str, tuple[float, ...]]
    """What the learner that is best for each credit earns in each episode; empty where there are too many states."""
    gt: float
    """The discount of the credit `mage`."""
    states: int
    seconds: float
    """Of CPU."""
    bounds: Mapping[str, tuple[Bounds, ...]] = field(default_factory=dict)
    """95% intervals of `blind`, `known` and `adaptation` in each episode if moves were sampled, else empty."""
    unsolved: str = ""
    """Why `per_episode` is empty."""

    @property
    def blind(self) -> float:
        """That of the last episode."""
        return self.blind_per_episode[-1]

    @property
    def known(self) -> float:
        """That of the last episode."""
        return self.known_per_episode[-1]

    @property
    def adaptation(self) -> float:
        """Adaptation headroom: what it would be worth in the last episode to know the opponent from the start."""
        return self.known - self.blind

    @property
    def reachable(self) -> float | None:
        """Reachable headroom: what a learner can at most gain by memory in the last episode, having seen the others.

        None if it was not solved, or moves were sampled; then it is at most the adaptation headroom.
        """
        return self.per_episode["last"][-1] - self.blind if self.exact else None

    @property
    def exploration(self) -> float | None:
        """Exploration headroom: what credit across episodes is worth at most in the last one.

        None if it was not solved, or moves were sampled; then it is at most the adaptation headroom.
        """
        return self.per_episode["last"][-1] - self.per_episode["myopic"][-1] if self.exact else None

    @property
    def exact(self) -> bool:
        """True if every learner was solved against opponents whose probabilities are known."""
        return bool(self.per_episode) and not self.bounds

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        names = ("blind", "known", "adaptation", "reachable", "exploration")
        return {**asdict(self), **{name: getattr(self, name) for name in names}}


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

    `samples`: moves in each state of a policy without `distribution`; 0 refuses such a policy with `NotExact`. One that
    remembers earlier hands is refused always. Raises `NotEnumerable` for a game without a tree, ValueError for bad
    settings.
    """
    started = time.process_time()
    credits: dict[str, Credit] = {**{name: name for name in CREDITS}, **({} if weights is None else {"own": weights})}
    check_lengths(episodes, hands)
    for credit in credits.values():
        credit_weights(credit, episodes, gt)  # what is wrong is told before anything is solved
    single = SingleHands(
        game=game, pool=as_pool(pool), seats=first_seats(game, seat), objective=objective, samples=samples, seed=seed
    )
    hand_values = [single.values(episode) for episode in range(episodes)]
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
        blind_per_episode=tuple(one.blind for one in hand_values),
        known_per_episode=tuple(one.known for one in hand_values),
        per_episode=per_episode,
        gt=gt,
        states=states,
        seconds=time.process_time() - started,
        bounds={name: tuple(one.bounds[name] for one in hand_values) for name in hand_values[0].bounds},
        unsolved=unsolved,
    )
