"""The value of memory of earlier episodes in a game against a pool, and of exploration across episodes.

    headroom(KuhnPoker(), "pool:kuhn/paper").adaptation     # .150 chips per hand

All values are exact and per hand. If moves of a policy had to be sampled, they are estimates with bounds.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from mage_envs.core import Game
from mage_envs.loading.imports import load_entry
from mage_envs.opponents.exact.bayes import (
    GT,
    BayesSolution,
    BayesValue,
    Credit,
    CreditName,
    Meeting,
    check_lengths,
    credit_weights,
    first_seats,
    mean_value,
    meetings,
)
from mage_envs.opponents.exact.beliefs import STATES, TellsStates
from mage_envs.opponents.exact.learner_hands import Floats, TooManyStates
from mage_envs.opponents.exact.tree import Objective, RemembersHands
from mage_envs.opponents.pools import PoolSpec, as_pool
from mage_envs.related import Related
from mage_envs.tree import is_enumerable

if TYPE_CHECKING:
    from mage_envs.opponents.exact.learning_headroom import LearningValues
    from mage_envs.opponents.exact.single_hands import Bounds, SingleHands

CREDITS: tuple[CreditName, ...] = ("myopic", "sum", "mage", "last")


@dataclass(frozen=True, kw_only=True)
class Headroom:
    """The values of six optimal learners against one opponent of a pool, in the game's unit per hand."""

    blind_per_episode: tuple[float, ...]
    """Value without memory of earlier hands (memoryless within the episode, too); the same in every episode unless an
    opponent changes. Against opponents that learn, it is `no_memory_per_episode`."""
    no_memory_per_episode: tuple[float, ...]
    """Value without memory of earlier episodes: the optimum of each episode by itself, which uses the episode's earlier
    hands. Against opponents that learn, one play of all episodes, the best for their sum. Empty if it has too many
    states or plans."""
    known_per_episode: tuple[float, ...]
    """Value if the learner knows the opponent."""
    per_episode: Mapping[str, tuple[float, ...]]
    """Value in each episode of the optimal learner for each credit; empty if there are too many states."""
    gt: float
    """Discount across episodes of the credit `mage`."""
    states: int
    """Number of states of belief, over all first seats."""
    seconds: float
    """CPU time in seconds."""
    bounds: Mapping[str, tuple[Bounds, ...]] = field(default_factory=dict)
    """95% intervals of `blind`, `known` and `adaptation` in each episode if moves were sampled, else empty."""
    unsolved: str = ""
    """Reason for an empty `per_episode`."""
    note: str = ""
    """Scope of values that a game's own solver returned, for the table."""
    stationary_per_episode: tuple[float, ...] = ()
    """Value of the learner that is optimal for the sum if nobody learns or changes; empty if nobody does."""
    restarted_per_episode: tuple[float, ...] = ()
    """Value of the best learner for the sum if it forgets everything before each episode; empty if nobody learns or
    changes, or if an episode has several hands."""
    learns: bool = False
    """True if an opponent learns or changes. Then no value is one of single hands."""

    @property
    def blind(self) -> float | None:
        """Value of the last episode without memory, or None if it was not solved."""
        return self.blind_per_episode[-1] if self.blind_per_episode else None

    @property
    def no_memory(self) -> float | None:
        """Value of the last episode without memory of earlier episodes, or None if it was not solved."""
        return self.no_memory_per_episode[-1] if self.no_memory_per_episode else None

    @property
    def known(self) -> float:
        """Value of the last episode if the learner knows the opponent."""
        return self.known_per_episode[-1]

    @property
    def adaptation(self) -> float | None:
        """Adaptation headroom: the gain in the last episode from knowing the opponent from the start."""
        return None if self.blind is None else self.known - self.blind

    @property
    def second_order(self) -> float | None:
        """Second-order headroom: the mean gain per episode from knowing that opponents learn and change.

        It is the optimum for the sum less what the optimal learner that expects no change earns; None if no opponent
        learns or changes.
        """
        if not self.stationary_per_episode:
            return None
        return (sum(self.per_episode["sum"]) - sum(self.stationary_per_episode)) / len(self.stationary_per_episode)

    @property
    def reachable(self) -> float | None:
        """Reachable headroom: a learner's maximum gain by memory of earlier episodes in the last episode.

        None if it was not solved or moves were sampled. In that case the adaptation headroom is an upper bound.
        """
        if not self.exact or self.no_memory is None:
            return None
        return self.per_episode["last"][-1] - self.no_memory

    @property
    def exploration(self) -> float | None:
        """Exploration headroom: the maximum gain in the last episode by credit across episodes.

        None if it was not solved or moves were sampled. In that case the adaptation headroom is an upper bound.
        """
        return self.per_episode["last"][-1] - self.per_episode["myopic"][-1] if self.exact else None

    @property
    def exact(self) -> bool:
        """True if every learner was solved against opponents whose probabilities are known."""
        return bool(self.per_episode) and not self.bounds

    def to_json(self) -> dict[str, Any]:
        """Return all values, with those of the properties, as JSON values."""
        names = ("blind", "no_memory", "known", "adaptation", "reachable", "exploration")
        values = {**asdict(self), **{name: getattr(self, name) for name in names}}
        # Values of opponents that learn are left out for all other pools.
        learning = {name: values.pop(name) for name in ("stationary_per_episode", "restarted_per_episode", "learns")}
        return {**values, **learning, "second_order": self.second_order} if self.learns else values


class ExactSolution(Protocol):
    """Exact values of a game that cannot be enumerated, from its own solver (`Related.solver`).

    A solver is called with the game, the pool, the number of episodes and the objective.
    """

    blind: float
    """Value of an episode without memory."""
    known: float
    """Value of an episode if the learner knows the opponent."""
    states: int
    """Number of states of belief that were solved so far."""
    note: str
    """Scope of the values, for the table."""

    def per_episode(self, weights: Floats, myopic: bool) -> Iterable[float]:
        """Return the value in each episode of the optimal learner for weights as in `credit_weights`."""
        ...


def is_solvable(game: Game) -> bool:
    """Return True if `headroom` has values for the game: it can be enumerated, or it has a solver of its own."""
    return bool(isinstance(game, Related) and game.solver) or is_enumerable(game)


def _own_solution(
    game: Related,
    pool: PoolSpec,
    episodes: int,
    hands: int,
    objective: Objective,
    credits: Mapping[str, Credit],
    gt: float,
) -> Headroom:
    """Return the values from the game's own solver."""
    start_time = time.process_time()
    if hands > 1:
        raise ValueError(f"{game.spec.name} is solved for one hand per episode, got {hands}.")
    solution: ExactSolution = load_entry(game.solver)(game, as_pool(pool), episodes, objective)
    per_episode = {
        name: tuple(solution.per_episode(credit_weights(credit, episodes, gt), credit == "myopic"))
        for name, credit in credits.items()
    }
    return Headroom(
        blind_per_episode=(solution.blind,) * episodes,
        # These games have one hand per episode, so an episode has no earlier hands.
        no_memory_per_episode=(solution.blind,) * episodes,
        known_per_episode=(solution.known,) * episodes,
        per_episode=per_episode,
        gt=gt,
        states=solution.states,
        seconds=time.process_time() - start_time,
        note=solution.note,
    )


def _single_episodes(
    single: SingleHands, game: Game, episodes: int, hands: int, seat: str, limit: int
) -> tuple[float, ...]:
    """Return the optimum of each episode by itself per hand, or an empty tuple if it has too many states.

    Args:
        single: Pool, with its hands.
        hands: Hands per episode.
        limit: Maximum number of states for one first seat.
    """
    optima: dict[int, float] = {}
    for episode in range(episodes):
        # Opponents that do not change between episodes play all episodes alike.
        solved_episode = episode if single.changes else 0
        if solved_episode in optima:
            continue
        try:
            values = [
                # The credit counts this episode alone, and nothing before it was seen.
                BayesSolution(
                    Meeting(
                        game,
                        single.pool,
                        seat0,
                        episodes=solved_episode + 1,
                        hands=hands,
                        alternate=seat == "alternate",
                        limit=limit,
                        learner_hands=single.learner_hands,
                        start=solved_episode * hands,
                    ),
                    "last",
                ).value.total
                for seat0 in first_seats(game, seat)
            ]
        except TooManyStates:
            return ()
        optima[solved_episode] = sum(values) / len(values) / hands
    return tuple(optima[episode if single.changes else 0] for episode in range(episodes))


def _learning_headroom(learning: LearningValues, hands: int, gt: float, seconds: float) -> Headroom:
    """Return the values of a pool with opponents that learn, per hand."""

    def per_hand(values: Sequence[float]) -> tuple[float, ...]:
        return tuple(value / hands for value in values)

    means = {name: mean_value(values) for name, values in learning.solved.items()}
    return Headroom(
        blind_per_episode=per_hand(learning.no_memory),
        no_memory_per_episode=per_hand(learning.no_memory),
        known_per_episode=per_hand(learning.known),
        per_episode={name: per_hand(value.per_episode) for name, value in means.items()},
        gt=gt,
        states=means["sum"].states,
        seconds=seconds,
        unsolved=learning.unsolved,
        stationary_per_episode=per_hand(learning.stationary),
        restarted_per_episode=per_hand(learning.restarted),
        learns=True,
    )


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
    """Return the values of six optimal learners, and of the learner for custom weights if `weights` is set.

    Args:
        game: Game with an enumerable tree.
        pool: Opponents and their prior probabilities.
        hands: Hands per episode.
        seat: Seat rule: `first`, `second`, `alternate` or `fixed`.
        gt: Discount across episodes of the credit `mage`.
        weights: Weights of the episodes for a further learner, named `own`; they must sum to 1.
        objective: Payoff that is maximised, `returns` or `success`.
        samples: Moves per information state for policies without `distribution`; 0 rejects such policies.
        limit: Maximum number of states for one first seat.
        progress: Callback during the forward pass.

    Raises:
        NotExact: If a policy remembers earlier hands, or has no `distribution` while `samples` is 0.
        NotEnumerable: If the tree of the game cannot be enumerated.
        ValueError: If a setting is invalid.
    """
    # Imported here, because `mage_envs.opponents.exact` loads this module, and only this function needs them.
    from mage_envs.opponents.exact.learning_headroom import learning_values
    from mage_envs.opponents.exact.single_hands import SingleHands

    start_time = time.process_time()
    credits: dict[str, Credit] = {**{name: name for name in CREDITS}, **({} if weights is None else {"own": weights})}
    check_lengths(episodes, hands)
    # Check all credits now, because solving may take minutes.
    for credit in credits.values():
        credit_weights(credit, episodes, gt)
    if isinstance(game, Related) and game.solver:
        return _own_solution(game, pool, episodes, hands, objective, credits, gt)
    try:
        single = SingleHands(
            game=game,
            pool=as_pool(pool),
            seats=first_seats(game, seat),
            objective=objective,
            samples=samples,
            seed=seed,
        )
    except RemembersHands:
        learning = learning_values(
            game,
            as_pool(pool),
            episodes=episodes,
            hands=hands,
            seat=seat,
            objective=objective,
            credits=credits,
            gt=gt,
            limit=limit,
            progress=progress,
        )
        return _learning_headroom(learning, hands, gt, time.process_time() - start_time)
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
            learner_hands=single.learner_hands,
        ):
            states += meeting.states
            for name, credit in credits.items():
                solved[name].append(BayesSolution(meeting, credit, gt).value)
    # Too many states is a result, not an error: the blind and the known value exist in any case.
    except TooManyStates as error:
        solved, states, unsolved = {}, 0, str(error)
    per_episode = {
        name: tuple(value / hands for value in mean_value(values).per_episode) for name, values in solved.items()
    }
    blind = tuple(hand_value.blind for hand_value in hand_values)
    return Headroom(
        blind_per_episode=blind,
        no_memory_per_episode=blind if hands == 1 else _single_episodes(single, game, episodes, hands, seat, limit),
        known_per_episode=tuple(hand_value.known for hand_value in hand_values),
        per_episode=per_episode,
        gt=gt,
        states=states,
        seconds=time.process_time() - start_time,
        bounds={name: tuple(hand_value.bounds[name] for hand_value in hand_values) for name in hand_values[0].bounds},
        unsolved=unsolved,
    )
