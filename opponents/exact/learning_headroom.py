"""The values of `headroom` for pools whose opponents learn or change between episodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mage_envs.core import Game
from mage_envs.opponents.exact.bayes import BayesSolution, BayesValue, Credit, bayes_value, first_seats, meetings
from mage_envs.opponents.exact.beliefs import TellsStates
from mage_envs.opponents.exact.learner_hands import TooManyStates
from mage_envs.opponents.exact.learner_values import (
    BestPlan,
    Schedule,
    best_plan,
    first_plan,
    follow_plans,
    learner_value,
)
from mage_envs.opponents.exact.modes import Modes
from mage_envs.opponents.exact.plans import LearnerHands
from mage_envs.opponents.exact.stationary import StationaryPolicy
from mage_envs.opponents.exact.tree import Objective
from mage_envs.opponents.pools import OpponentPool


class LearningValues(NamedTuple):
    """Values per episode, summed over its hands, as means over the first seats."""

    no_memory: tuple[float, ...]
    """Best plan of an episode, the same in each; empty if there are too many."""
    known: tuple[float, ...]
    """Optimum if the learner knows the opponent, but not when it changes."""
    stationary: tuple[float, ...]
    """Learner that is optimal if nobody changes; empty for other objectives than the return."""
    restarted: tuple[float, ...]
    """Best learner that forgets everything before each episode; empty if an episode has several hands."""
    solved: Mapping[str, list[BayesValue]]
    """Optimal learner for each credit, by first seat; empty if there are too many states."""
    unsolved: str
    """Reason why values are missing."""


def learning_values(
    game: Game,
    pool: OpponentPool,
    *,
    episodes: int,
    hands: int,
    seat: str,
    objective: Objective,
    credits: Mapping[str, Credit],
    gt: float,
    limit: int,
    progress: TellsStates | None,
) -> LearningValues:
    """Return the values of a pool with opponents that learn. The arguments are those of `headroom`.

    Raises:
        NotExact: If an opponent has no exact probabilities, or a memory that is not public.
        NotEnumerable: If the tree of the game cannot be enumerated.
        TooManyStates: If there are too many states.
    """
    learner_hands = LearnerHands(game, Modes(game, pool), objective)
    alternate, seats = seat == "alternate", first_seats(game, seat)
    schedules = [Schedule.of(game.spec.players, seat0, episodes, hands, alternate=alternate) for seat0 in seats]
    solved: dict[str, list[BayesValue]] = {name: [] for name in credits}
    sums: dict[int, BayesSolution] = {}
    for meeting in meetings(
        game,
        pool,
        episodes=episodes,
        hands=hands,
        seat=seat,
        objective=objective,
        limit=limit,
        progress=progress,
        learner_hands=learner_hands,
    ):
        for name, credit in credits.items():
            solution = BayesSolution(meeting, credit, gt)
            solved[name].append(solution.value)
            if credit == "sum":
                sums[meeting.seats[0]] = solution
    known = [
        [
            weight * value
            for value in bayes_value(
                game, entry, episodes=episodes, hands=hands, seat=seat, objective=objective, limit=limit
            ).per_episode
        ]
        for entry, weight in zip(pool.entries, pool.weights, strict=True)
    ]
    stationary: list[tuple[float, ...]] = []
    if objective == "returns":
        learner = StationaryPolicy(game, pool, episodes, hands, alternate=alternate)
        stationary = [learner_value(learner_hands, game, schedule, learner) for schedule in schedules]
    plans: list[BestPlan] = []
    restarted: list[tuple[float, ...]] = []
    unsolved = "a plan of several hands is not computed for opponents that learn" if hands > 1 else ""
    if hands == 1:
        first_plans = {first_seat: first_plan(solution) for first_seat, solution in sums.items()}
        restarted = [follow_plans(learner_hands, schedule, first_plans) for schedule in schedules]
        try:
            plans = [best_plan(learner_hands, schedule) for schedule in schedules]
        except TooManyStates as error:
            unsolved = str(error)
    return LearningValues(
        no_memory=_mean([plan.per_episode for plan in plans]),
        known=tuple(map(sum, zip(*known, strict=True))),
        stationary=_mean(stationary),
        restarted=_mean(restarted),
        solved=solved,
        unsolved=unsolved,
    )


def _mean(rows: list[tuple[float, ...]]) -> tuple[float, ...]:
    """Return the mean of rows, or an empty tuple if there are none."""
    return tuple(sum(values) / len(rows) for values in zip(*rows, strict=True)) if rows else ()
