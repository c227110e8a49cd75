"""Scores of an evaluation: means with intervals, gains, Pass@k, and exact values. Requires only NumPy.

Intervals are 95%, clustered, and use Student's t. A cluster holds everything that depends on one seed: the episodes of
a meta-episode and, in a panel, the meta-episodes that replay its deals from the other seat and against other opponents.
If every meta-episode has its own seed, each is a cluster. Tasks of one family (`Game.family`; WebShop's near
duplicates) are one cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from mage_envs.benchmarks.evaluation.scoring.call_stats import (
    MAX_FAILED_SHARE,
    MAX_UNUSABLE,
    REPLY_PROBLEMS,
    CallShares,
    Costs,
    as_losses,
    costs_of,
    failure_kinds,
    first_success,
    share_invalid,
    share_without_text,
    shares_by_kind,
)
from mage_envs.benchmarks.evaluation.scoring.estimates import Estimate, estimate
from mage_envs.benchmarks.evaluation.scoring.exact_values import ExactValues
from mage_envs.core import Game
from mage_envs.opponents.exact import Objective
from mage_envs.registry import headline
from mage_envs.wrappers.rollout.trajectory import EpisodeResult, Trajectory

if TYPE_CHECKING:
    from pydantic import TypeAdapter

S = TypeVar("S")


@dataclass(frozen=True)
class Measure:
    """One measure of one episode and its exact references over the seats that were played. None means not available."""

    estimate: Estimate
    ceiling: float | None
    """Best response value."""
    blind: float | None
    """Value of the best policy that knows the pool but not the current opponent, and learns nothing."""

    @property
    def regret(self) -> float | None:
        """Return the difference between the ceiling and the mean."""
        return None if self.ceiling is None else self.ceiling - self.estimate.mean


@dataclass(frozen=True)
class EpisodeScore:
    """Scores of one episode of the meta-episode, over the meta-episodes that played it."""

    returns: Measure
    """Return in the game's unit per hand."""
    success: Measure
    draws: float
    """Share of episodes that are neither a success nor a failure."""
    timeouts: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The game's own metrics at the end of the episode, as means over the meta-episodes that have them."""

    def measure(self, objective: Objective) -> Measure:
        """Return the measure of an objective."""
        return self.returns if objective == "returns" else self.success


@dataclass(frozen=True)
class ScoreRow:
    """Scores against one opponent, on one category of tasks, or as the weighted mean over all."""

    opponent: str
    weight: float
    meta_episodes: int
    """Number of scored meta-episodes, without failed ones."""
    failures: int
    invalid: float
    """Share of the answers without a usable action or remark, except those without text."""
    episodes: tuple[EpisodeScore, ...]
    gain: Estimate | None
    """Last episode minus first, in the game's unit per hand, paired within the meta-episode. None if a meta-episode
    stopped early."""
    success_gain: Estimate | None
    """`gain` of the success rate."""
    pass_at: tuple[Estimate, ...]
    """Share of meta-episodes with a success within the first k episodes, k from 1."""
    first_success: float | None = None
    """Mean number of the first successful episode, from 1, among the meta-episodes that had one."""
    calls: Mapping[str, CallShares] = field(default_factory=dict)
    """Kind of call to its shares."""
    costs: Costs | None = None
    failed_by: Mapping[str, int] = field(default_factory=dict)
    """Cause of failure to the number of meta-episodes."""
    optimal: tuple[float, ...] = ()
    """Return in each episode of the learner that knows the pool and maximises the sum of the episodes; empty if
    unknown."""
    no_text: float = 0.0
    """Share of the calls for which a server returned no text: a refusal, tool calls, or nothing."""

    def reply_problems(self) -> dict[str, float]:
        """Return the share of replies with each of `REPLY_PROBLEMS`, over all kinds of call."""
        count = max(sum(shares.calls for shares in self.calls.values()), 1)
        return {
            name: sum(shares.calls * float(vars(shares)[name]) for shares in self.calls.values()) / count
            for name in REPLY_PROBLEMS
        }

    def warnings(self) -> list[str]:
        """Return one line for each problem that makes the scores doubtful: many unusable replies, or many failures."""
        lines = [
            f"Warning: {share:.0%} of the replies {REPLY_PROBLEMS[name]}."
            for name, share in self.reply_problems().items()
            if share > MAX_UNUSABLE
        ]
        planned = self.meta_episodes + self.failures
        if self.failures > MAX_UNUSABLE * planned:
            lines.append(f"Warning: {self.failures} of {planned} meta-episodes failed and are left out of the scores.")
        return lines


@dataclass(frozen=True)
class Summary:
    """The scores of one agent on one panel."""

    agent: str
    env_id: str
    panel: str
    """Name, size and fingerprint of the panel."""
    unit: str
    objective: Objective
    """Headline measure."""
    rows: tuple[ScoreRow, ...]
    overall: ScoreRow
    rows_are: str = "opponent"
    """Subject of a row: an `opponent`, or `tasks` of one category."""
    early_stop: bool = False
    """True if meta-episodes ended with their first success. Later episodes then contain only meta-episodes without one,
    so Pass@k is the headline, exact values are omitted, and there is no gain."""
    floors: tuple[ScoreRow, ...] = ()
    """Baselines of tasks that repeat: scores on the same panel of policies that learn nothing or read nothing."""
    with_losses: ScoreRow | None = None
    """`overall` with failures counted as losses, if they exceed 1%."""

    def to_json(self) -> dict[str, Any]:
        """Return the summary as plain JSON values."""
        return asdict(self)


def read_scores(kind: type[S], data: bytes) -> S:
    """Return the `Summary` or `ScoreRow` from JSON that `dataclasses.asdict` produced.

    Raises:
        ValueError: If the JSON does not fit the class.
    """
    read: S = _reader(kind).validate_json(data)  # type: ignore[arg-type]  # a class is hashable
    return read


@cache
def _reader(kind: type[Any]) -> TypeAdapter[Any]:
    """Return the validator of a class."""
    # pydantic takes 0.1 s to import, and most commands read no scores.
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def summarise(
    trajectories: Sequence[Trajectory],
    game: Game,
    *,
    weights: Mapping[str, float] | None = None,
    pool: Mapping[str, float] | None = None,
    optimal: Sequence[float] = (),
    agent: str = "",
    panel: str = "",
) -> Summary:
    """Return the scores per opponent and over all of them.

    In games of one player, categories of tasks replace the opponents.

    Args:
        trajectories: Meta-episodes to score.
        game: Game for facts and exact values, which no environment plays.
        weights: Weight of each opponent in the overall row (default: equal weights).
        pool: Opponents that the policy without information expects, by weight (default: those that were met).
        optimal: Return in each episode of the learner that is optimal against the pool.

    Raises:
        ValueError: If `trajectories` is empty, or if `weights` does not name exactly the opponents that were met.
    """
    names = list(dict.fromkeys(label(t) for t in trajectories))
    if not names:
        raise ValueError("No meta-episode was played, so there are no scores.")
    if weights is not None and set(weights) != set(names):
        raise ValueError(f"weights must name the opponents met, {', '.join(names)}; got {', '.join(weights)}.")
    has_no_opponents = not any(t.opponent for t in trajectories)
    counts = Counter(label(t) for t in trajectories)
    # Opponents count equally, but categories of tasks count by their number of tasks: they are not met equally often.
    raw_weights = weights or {name: float(counts[name]) if has_no_opponents else 1.0 for name in names}
    shares = {name: raw_weights[name] / sum(raw_weights.values()) for name in names}
    objective = headline(game)
    scoring = _Scoring(shares, objective, ExactValues(game, pool or shares), game)
    rows = []
    for name in names:
        mine = [t for t in trajectories if label(t) == name]
        rows.append(_row(name, shares[name], mine, scoring._replace(weights={name: 1.0})))
    title = "all, weighted" if weights and len(set(weights.values())) > 1 else "all"
    finished = [t for t in trajectories if t.failure is None]
    overall = replace(_row(title, 1.0, trajectories, scoring), optimal=tuple(optimal))
    lost = None
    if finished and len(trajectories) - len(finished) > MAX_FAILED_SHARE * len(trajectories):
        lost = _row("failures as losses", 1.0, as_losses(trajectories, game), scoring)
    return Summary(
        agent=agent,
        env_id=trajectories[0].task.env_id,
        panel=panel,
        unit=game.spec.unit,
        objective=objective,
        rows=tuple(rows),
        overall=overall,
        rows_are="tasks" if has_no_opponents else "opponent",
        early_stop=any(len(t.episodes) < t.num_episodes for t in finished),
        with_losses=lost,
    )


class _Scoring(NamedTuple):
    """Data shared by all scores of a row."""

    weights: Mapping[str, float]
    """Weight of each opponent in the row."""
    objective: Objective
    exact: ExactValues
    game: Game

    def mean(self, trajectories: Sequence[Trajectory], values: Sequence[float], proportion: bool = False) -> Estimate:
        """Return the estimate from one value per meta-episode."""
        clusters = [cluster_of(t, self.game) for t in trajectories]
        return estimate(values, clusters, [label(t) for t in trajectories], self.weights, proportion)


def _row(name: str, weight: float, trajectories: Sequence[Trajectory], scoring: _Scoring) -> ScoreRow:
    """Return the scores of these meta-episodes as one row."""
    finished = [t for t in trajectories if t.failure is None]
    steps = [step for t in finished for step in t.steps]
    planned = max(t.num_episodes for t in trajectories)
    episodes = []
    for k in range(planned):
        if any(len(t.episodes) > k for t in finished):
            episodes.append(_episode_score(finished, k, scoring))
    is_complete = bool(finished) and planned > 1 and all(len(t.episodes) == planned for t in finished)

    def gain(of: Callable[[EpisodeResult], float]) -> Estimate | None:
        return (
            scoring.mean(finished, [of(t.episodes[-1]) - of(t.episodes[0]) for t in finished]) if is_complete else None
        )

    passed = [[float(any(e.success for e in t.episodes[:k])) for t in finished] for k in range(1, planned + 1)]
    return ScoreRow(
        opponent=name,
        weight=weight,
        meta_episodes=len(finished),
        failures=len(trajectories) - len(finished),
        invalid=share_invalid(steps),
        episodes=tuple(episodes),
        gain=gain(per_hand),
        success_gain=gain(lambda e: float(e.success)),
        pass_at=tuple(scoring.mean(finished, values, proportion=True) for values in passed) if finished else (),
        first_success=first_success(finished),
        calls=shares_by_kind(finished),
        costs=costs_of(finished),
        failed_by=failure_kinds(trajectories),
        no_text=share_without_text(steps),
    )


def label(trajectory: Trajectory) -> str:
    """Return the row of a trajectory: its opponent, or the category of its task."""
    return trajectory.opponent or trajectory.category or ""


def per_hand(episode: EpisodeResult) -> float:
    """Return the learner's mean return per hand, in the game's unit."""
    return episode.value / max(episode.hands, 1)


def cluster_of(trajectory: Trajectory, game: Game) -> Hashable:
    """Return the cluster of a meta-episode: the family of its task if it has one, else its seed."""
    task_id = trajectory.task_id or trajectory.task.task_id
    family = None if task_id is None else game.family(task_id)
    return trajectory.task.seed if family is None else family


def _episode_score(finished: Sequence[Trajectory], k: int, scoring: _Scoring) -> EpisodeScore:
    """Return the scores of episode `k` over the meta-episodes that played it."""
    weights, objective, exact, _ = scoring
    trajectories = [t for t in finished if len(t.episodes) > k]
    results = [t.episodes[k] for t in trajectories]

    def measure(estimate: Estimate, kind: Objective) -> Measure:
        """Return the measure, with exact values if it has any."""
        if len(trajectories) < len(finished):
            # Early stop selects by success, so the remaining seats and opponents are not those of the panel.
            return Measure(estimate, None, None)
        # Exact success rates are per hand, and exact returns are computed only if they are the headline.
        if (kind == "returns" and objective == "success") or (kind == "success" and any(e.hands > 1 for e in results)):
            return Measure(estimate, None, None)
        ceilings = [[exact.ceiling(t.opponent, k, seat, kind) for seat in t.episodes[k].seats] for t in trajectories]
        names = tuple(weights)
        blind = [[exact.blind(t.opponent, k, seat, kind, names) for seat in t.episodes[k].seats] for t in trajectories]
        return Measure(estimate, average(ceilings), average(blind))

    def average(values: list[list[float | None]]) -> float | None:
        """Return the mean over seats, then over meta-episodes; None if any value is unknown."""
        known_values = [[value for value in seats if value is not None] for seats in values]
        if any(len(row) < len(seats) or not row for row, seats in zip(known_values, values, strict=True)):
            return None
        return scoring.mean(trajectories, [float(np.mean(seats)) for seats in known_values]).mean

    return EpisodeScore(
        returns=measure(scoring.mean(trajectories, [per_hand(e) for e in results]), "returns"),
        success=measure(scoring.mean(trajectories, [float(e.success) for e in results], proportion=True), "success"),
        draws=scoring.mean(trajectories, [float(e.is_draw) for e in results]).mean,
        timeouts=scoring.mean(trajectories, [float(e.timeout) for e in results]).mean,
        metrics={
            name: float(np.mean([e.metrics[name] for e in results if name in e.metrics]))
            for name in sorted({name for e in results for name in e.metrics})
        },
    )


def score_of(summary: Summary) -> float:
    """Return the headline measure of the last episode, or Pass@k if meta-episodes stop at a success."""
    overall = summary.overall
    if summary.early_stop:
        return overall.pass_at[-1].mean
    return overall.episodes[-1].measure(summary.objective).estimate.mean
