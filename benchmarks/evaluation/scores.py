"""Scores of an evaluation: means with intervals, gains, Pass@k, and the exact values beside them. NumPy alone.

Intervals are 95%, by Student's t, and clustered. A cluster is all that depends on one seed: the episodes of a
meta-episode and, in a panel, the meta-episodes that replay its deals from the other seat and against other opponents.
Where every meta-episode has a seed of its own, this is clustering by meta-episode. Tasks of one family (`Game.family`;
WebShop's near duplicates) are one cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from benchmarks.evaluation.calls import (
    MAX_UNUSABLE,
    REPLY_PROBLEMS,
    CallShares,
    Costs,
    costs_of,
    failure_kinds,
    first_success,
    share_invalid,
    share_without_text,
    shares_by_kind,
)
from benchmarks.evaluation.estimates import Estimate, estimate, way
from benchmarks.evaluation.losses import FEW, as_losses
from benchmarks.evaluation.references import ExactValues
from mage_envs.core import Game
from mage_envs.registry import list_games, settings_of
from mage_envs.settings import outcome_reward
from opponents.exact import Objective
from trainer.trajectory import EpisodeResult, Trajectory

if TYPE_CHECKING:
    from pydantic import TypeAdapter

S = TypeVar("S")


@dataclass(frozen=True)
class Measure:
    """One measure of one episode beside its exact references, over the seats really played; None: not available."""

    estimate: Estimate
    ceiling: float | None
    """Value of the best response."""
    uninformed: float | None
    """Value of the best policy that does not know which opponent of the pool it faces, and learns nothing."""

    @property
    def regret(self) -> float | None:
        """What the mean falls short of the best response by."""
        return None if self.ceiling is None else self.ceiling - self.estimate.mean

    @property
    def share(self) -> float | None:
        """The way from `uninformed` (0) to `ceiling` (1) that the mean has come; None where they are equal."""
        found = self.share_estimate
        return None if found is None else found.mean

    @property
    def share_estimate(self) -> Estimate | None:
        """`share` with its interval."""
        return way(self.estimate, self.uninformed, self.ceiling)


@dataclass(frozen=True)
class EpisodeScore:
    """How one episode of the meta-episode went, over those that played it."""

    returns: Measure
    """In the game's unit per hand."""
    success: Measure
    draws: float
    """Share of episodes that are neither a success nor a failure."""
    timeouts: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The game's own metrics at the episode's end, each the mean over the meta-episodes that have it."""

    def measure(self, objective: Objective) -> Measure:
        return self.returns if objective == "returns" else self.success


@dataclass(frozen=True)
class ScoreRow:
    """One opponent, or category of task where nobody else plays, or the weighted mean over all of them."""

    opponent: str
    weight: float
    meta_episodes: int
    """Scored; broken ones are left out."""
    failures: int
    invalid: float
    """Share of the answers without a usable action or remark, those without text apart."""
    episodes: tuple[EpisodeScore, ...]
    gain: Estimate | None
    """Last episode minus first, in the game's unit per hand, paired within the meta-episode; None where one of them
    stopped before its last episode."""
    success_gain: Estimate | None
    pass_at: tuple[Estimate, ...]
    """Share of meta-episodes with a success within the first k episodes, k from 1."""
    first_success: float | None = None
    """Mean number of the first episode with a success, from 1, among the meta-episodes that had one."""
    calls: Mapping[str, CallShares] = field(default_factory=dict)
    """By kind of call."""
    costs: Costs | None = None
    failed_by: Mapping[str, int] = field(default_factory=dict)
    """Failures by what broke."""
    optimal: tuple[float, ...] = ()
    """What the learner earns in each episode that knows the pool and is optimal for their sum; empty where unknown."""
    no_text: float = 0.0
    """Share of the calls to which a server sent no text: a refusal, calls of tools, or nothing."""

    def reply_problems(self) -> dict[str, float]:
        """Return the share of replies with each of `REPLY_PROBLEMS`, over all kinds of call."""
        count = max(sum(one.calls for one in self.calls.values()), 1)
        return {
            name: sum(one.calls * float(vars(one)[name]) for one in self.calls.values()) / count
            for name in REPLY_PROBLEMS
        }

    def warnings(self) -> list[str]:
        """Return a line for each problem that makes the scores doubtful: many unusable replies, or many failures."""
        found = [
            f"Warning: {share:.0%} of the replies {REPLY_PROBLEMS[name]}."
            for name, share in self.reply_problems().items()
            if share > MAX_UNUSABLE
        ]
        played = self.meta_episodes + self.failures
        if self.failures > MAX_UNUSABLE * played:
            found.append(f"Warning: {self.failures} of {played} meta-episodes failed and are left out of the scores.")
        return found

    def efficiency(self, k: int, objective: Objective) -> float | None:
        """The way in episode k (from 0) from the best policy without information (0) to `optimal` (1)."""
        found = self.efficiency_estimate(k, objective)
        return None if found is None else found.mean

    def efficiency_estimate(self, k: int, objective: Objective) -> Estimate | None:
        """`efficiency` with its interval."""
        if not 0 <= k < min(len(self.episodes), len(self.optimal)):
            return None
        measure = self.episodes[k].measure(objective)
        return way(measure.estimate, measure.uninformed, self.optimal[k])


@dataclass(frozen=True)
class Summary:
    """The scores of one agent on one panel."""

    agent: str
    env_id: str
    panel: str
    """Name and SHA-256 of the panel."""
    unit: str
    objective: Objective
    """The headline measure."""
    rows: tuple[ScoreRow, ...]
    overall: ScoreRow
    rows_are: str = "opponent"
    """What a row stands for: an `opponent`, or `tasks` of one category."""
    early_stop: bool = False
    """Whether meta-episodes ended with their first success: later episodes were played by those without one alone, so
    that Pass@k is the headline, episodes are compared with nothing, and there is no gain."""
    floors: tuple[ScoreRow, ...] = ()
    """In tasks that repeat: what policies that learn nothing, or read nothing, score on the same panel."""
    with_losses: ScoreRow | None = None
    """`overall` with failures counted as losses, where they exceed 1%."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def read_scores(kind: type[S], data: bytes) -> S:
    """Return the `Summary` or `ScoreRow` in JSON that was made from `dataclasses.asdict`. Raises ValueError."""
    read: S = _reader(kind).validate_json(data)  # type: ignore[arg-type]  # a class is hashable
    return read


@cache
def _reader(kind: type[Any]) -> TypeAdapter[Any]:
    # pydantic takes a tenth of a second to load, and most commands read no scores.
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def headline(game: Game) -> Objective:
    """Success where the task is to win or to solve, the game's own unit where it is to win much, or nothing is told."""
    name = game.facts.name
    if name not in list_games():
        return "returns"
    wins = game.facts.players == 1 or settings_of(name).rewards.get("task") is outcome_reward
    return "success" if wins else "returns"


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
    """Scores per opponent and over all of them by `weights` (default: equally), in games of one player per category
    of task and over all tasks.

    `pool`: the opponents among which the policy without information expects to be (default: those met, by weight).
    `optimal`: what the learner that is optimal against them all earns in each episode.
    `game` must not be one that is played. Raises ValueError without trajectories or with a weight missing.
    """
    names = list(dict.fromkeys(label(t) for t in trajectories))
    if not names:
        raise ValueError("There is nothing to score: no meta-episode was played.")
    if weights is not None and set(weights) != set(names):
        raise ValueError(f"weights must name the opponents met, {', '.join(names)}; got {', '.join(weights)}.")
    alone = not any(t.opponent for t in trajectories)
    counts = Counter(label(t) for t in trajectories)
    given = weights or {name: float(counts[name]) if alone else 1.0 for name in names}
    shares = {name: given[name] / sum(given.values()) for name in names}
    objective = headline(game)
    scoring = _Scoring(shares, objective, ExactValues(game, pool or shares), game)
    rows = []
    for name in names:
        mine = [t for t in trajectories if label(t) == name]
        rows.append(_row(name, shares[name], mine, scoring._replace(weights={name: 1.0})))
    title = "all, weighted" if weights and len(set(weights.values())) > 1 else "all"
    kept = [t for t in trajectories if t.failure is None]
    overall = replace(_row(title, 1.0, trajectories, scoring), optimal=tuple(optimal))
    lost = None
    if kept and len(trajectories) - len(kept) > FEW * len(trajectories):
        lost = _row("failures as losses", 1.0, as_losses(trajectories, game), scoring)
    return Summary(
        agent=agent,
        env_id=trajectories[0].task.env_id,
        panel=panel,
        unit=game.facts.unit,
        objective=objective,
        rows=tuple(rows),
        overall=overall,
        rows_are="tasks" if alone else "opponent",
        early_stop=any(len(t.episodes) < t.num_episodes for t in kept),
        with_losses=lost,
    )


class _Scoring(NamedTuple):
    """What all scores of a row are made with."""

    weights: Mapping[str, float]
    """Of the opponents in the row."""
    objective: Objective
    exact: ExactValues
    game: Game

    def mean(self, trajectories: Sequence[Trajectory], values: Sequence[float], proportion: bool = False) -> Estimate:
        """The estimate from one value a meta-episode."""
        clusters = [cluster_of(t, self.game) for t in trajectories]
        return estimate(values, clusters, [label(t) for t in trajectories], self.weights, proportion)


def _row(name: str, weight: float, trajectories: Sequence[Trajectory], scoring: _Scoring) -> ScoreRow:
    kept = [t for t in trajectories if t.failure is None]
    steps = [step for t in kept for step in t.steps]
    planned = max(t.num_episodes for t in trajectories)
    episodes = []
    for k in range(planned):
        if any(len(t.episodes) > k for t in kept):
            episodes.append(_episode_score(kept, k, scoring))
    whole = bool(kept) and planned > 1 and all(len(t.episodes) == planned for t in kept)

    def gain(of: Callable[[EpisodeResult], float]) -> Estimate | None:
        return scoring.mean(kept, [of(t.episodes[-1]) - of(t.episodes[0]) for t in kept]) if whole else None

    passed = [[float(any(e.success for e in t.episodes[:k])) for t in kept] for k in range(1, planned + 1)]
    return ScoreRow(
        opponent=name,
        weight=weight,
        meta_episodes=len(kept),
        failures=len(trajectories) - len(kept),
        invalid=share_invalid(steps),
        episodes=tuple(episodes),
        gain=gain(per_hand),
        success_gain=gain(lambda e: float(e.success)),
        pass_at=tuple(scoring.mean(kept, values, proportion=True) for values in passed) if kept else (),
        first_success=first_success(kept),
        calls=shares_by_kind(kept),
        costs=costs_of(kept),
        failed_by=failure_kinds(trajectories),
        no_text=share_without_text(steps),
    )


def label(trajectory: Trajectory) -> str:
    """What a trajectory is counted under: its opponent, or the category of its task."""
    return trajectory.opponent or trajectory.category or ""


def per_hand(episode: EpisodeResult) -> float:
    """The learner's mean return per hand, in the game's unit."""
    return episode.value / max(episode.hands, 1)


def cluster_of(trajectory: Trajectory, game: Game) -> Hashable:
    """What a meta-episode shares its luck with: the family of its task, else its seed."""
    task = trajectory.played or trajectory.task.task_id
    family = None if task is None else game.family(task)
    return trajectory.task.seed if family is None else family


def _episode_score(kept: Sequence[Trajectory], k: int, scoring: _Scoring) -> EpisodeScore:
    weights, objective, exact, _ = scoring
    played = [t for t in kept if len(t.episodes) > k]
    results = [t.episodes[k] for t in played]

    def measure(estimate: Estimate, kind: Objective) -> Measure:
        """With exact values where the measure has any: success if a hand is the episode, returns if the headline."""
        if len(played) < len(kept):
            return Measure(estimate, None, None)  # of the seats of those left, which nobody chose
        if (kind == "returns" and objective == "success") or (kind == "success" and any(e.hands > 1 for e in results)):
            return Measure(estimate, None, None)
        ceilings = [[exact.ceiling(t.opponent, k, seat, kind) for seat in t.episodes[k].seats] for t in played]
        names = tuple(weights)
        blind = [[exact.uninformed(t.opponent, k, seat, kind, names) for seat in t.episodes[k].seats] for t in played]
        return Measure(estimate, average(ceilings), average(blind))

    def average(values: list[list[float | None]]) -> float | None:
        """The mean over the seats of each meta-episode, then over the meta-episodes."""
        known = [[value for value in seats if value is not None] for seats in values]
        if any(len(some) < len(seats) or not some for some, seats in zip(known, values, strict=True)):
            return None
        return scoring.mean(played, [float(np.mean(seats)) for seats in known]).mean

    return EpisodeScore(
        returns=measure(scoring.mean(played, [per_hand(e) for e in results]), "returns"),
        success=measure(scoring.mean(played, [float(e.success) for e in results], proportion=True), "success"),
        draws=scoring.mean(played, [float(e.is_draw) for e in results]).mean,
        timeouts=scoring.mean(played, [float(e.timeout) for e in results]).mean,
        metrics={
            name: float(np.mean([e.metrics[name] for e in results if name in e.metrics]))
            for name in sorted({name for e in results for name in e.metrics})
        },
    )
