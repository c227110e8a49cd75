"""Advantages (docs/method.md sections 4 and 6): one number per step, from the trajectories of a rollout. NumPy only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite

import numpy as np

from trainer.critic import ExactCritic
from trainer.finite import RETURN, REWARD, bad_pay, bad_returns, masked
from trainer.returns import SCHEMES, episode_values, hand_shares, returns_from_values, step_returns
from trainer.trajectory import Step, Trajectory
from wrappers import ADAPTIVE, Protocol
from wrappers.protocol import REFLECTION_ANCHORS

EPSILON = 1e-6
"""Added to standard deviations."""


@dataclass(frozen=True)
class CreditConfig:
    """How rewards become advantages."""

    returns: str = "differential"
    """`differential`, `cumulative` (LaMer), `single_episode`, `final`."""
    credit: str = "episode"
    """`episode`: an episode's reward sits at its last step; `reward`: each hand's at the step that ends it."""
    gamma_step: float = 0.95
    """gs, per play step."""
    gamma_episode: float = 0.6
    """gt, across episodes; `step_returns` says what it weighs."""
    advantage: str = "gigpo"
    """`gigpo`, `grpo`, `rloo`, `member_mean`, or `exact`: Q - V of the exact critic (trainer/critic.py)."""
    horizon: str = "hand"
    """Under `exact`: `hand` counts one's own hand alone; `meta` adds the sampled rest of the meta-episode."""
    anchor: str = "global"
    """`global`: equal observations of all episodes form a cluster; `local`: of the same episode only."""
    advantage_norm: str = "mean"
    """`mean`, or `mean_std`, which also divides by the sample standard deviation (n - 1)."""
    step_weight: float = 1.0
    """w of A = A_E + w * A_S."""
    statistics: str = "agent"
    """`agent`: per group and opponent; `pooled`: over the whole rollout."""
    penalty_in_return: bool = ADAPTIVE.penalty_in_return
    episode_baseline: str = ADAPTIVE.episode_baseline
    reflection_anchor: str = ADAPTIVE.reflection_anchor

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            value = self.__dict__[name]
            if value not in choices:
                raise ValueError(f"{name}={value!r} is unknown; choose one of: {', '.join(choices)}.")
        if self.credit == "reward" and self.advantage == "gigpo":
            raise ValueError(
                'credit="reward" has no episode value for GiGPO to centre; '
                'use advantage="member_mean" or credit="episode".'
            )
        if self.advantage == "exact" and self.credit != "reward":
            raise ValueError('advantage="exact" judges hands, which are paid as they end; use credit="reward".')

    @classmethod
    def from_protocol(cls, protocol: Protocol, **kwargs: object) -> CreditConfig:
        """A config with the three fields that the protocol decides."""
        return cls(
            penalty_in_return=protocol.penalty_in_return,
            episode_baseline=protocol.episode_baseline,
            reflection_anchor=protocol.reflection_anchor,
            **kwargs,  # type: ignore[arg-type]
        )


Group = list[Trajectory]
Weights = list[list[float]]


def _mean_by_key(keys: Sequence[Hashable], values: Sequence[float]) -> dict[Hashable, tuple[float, float, int]]:
    """(mean, sample standard deviation, count) of the values of each key."""
    found: dict[Hashable, list[float]] = defaultdict(list)
    for key, value in zip(keys, values, strict=True):
        found[key].append(value)
    return {key: _statistics(held) for key, held in found.items()}


def _statistics(held: list[float]) -> tuple[float, float, int]:
    low, high = min(held), max(held)
    if low == high:  # exactly 0 advantage for equal values, whatever the rounding of a mean
        return low, 0.0, len(held)
    array = np.asarray(held)
    return float(array.mean()), float(array.std(ddof=1)), len(held)


def _scale(value: float, deviation: float, config: CreditConfig) -> float:
    """Values without deviation are not divided: what is left of them (a penalty) is no noise to be blown up."""
    return value / (deviation + EPSILON) if config.advantage_norm == "mean_std" and deviation else value


def _anchor_key(step: Step, trajectory: Trajectory, index: tuple[int, int], config: CreditConfig) -> Hashable:
    opponent = trajectory.opponent if config.statistics == "agent" else ""
    if step.phase == "reflect":
        if config.reflection_anchor == "alone":
            return ("alone", index)
        return ("reflection", opponent, step.episode if config.reflection_anchor == "episode" else -1)
    return ("play", step.anchor, opponent, step.episode if config.anchor == "local" else -1)


def _centred_values(group: Group, config: CreditConfig) -> Weights:
    """E_k of each member, less the members' mean at the same k where the protocol says so."""
    scheme = SCHEMES[config.returns]
    gs, gt = scheme.discount_rates(config.gamma_step, config.gamma_episode)
    values = [episode_values(trajectory, scheme, gs, gt) for trajectory in group]
    if config.episode_baseline == "group":
        return values
    keys = [k for member in values for k in range(len(member))]
    means = _mean_by_key(keys, [value for member in values for value in member])
    return [[value - means[k][0] for k, value in enumerate(member)] for member in values]


def _episode_advantages(group: Group, config: CreditConfig) -> Weights:
    """A_E of every step."""
    scheme = SCHEMES[config.returns]
    paid = [scheme.rewards([episode.reward for episode in trajectory.episodes]) for trajectory in group]
    scores = [
        [(paid[m][step.episode] if step.phase == "play" else 0.0) - step.penalty for step in trajectory.steps]
        for m, trajectory in enumerate(group)
    ]
    if config.episode_baseline == "group":
        mean, deviation, _ = _statistics([score for member in scores for score in member])
        return [[_scale(score - mean, deviation, config) for score in member] for member in scores]
    keys = [k for member in paid for k in range(len(member))]
    means = _mean_by_key(keys, [value for member in paid for value in member])
    played = [
        (step.episode, score)
        for member, trajectory in zip(scores, group, strict=True)
        for score, step in zip(member, trajectory.steps, strict=True)
        if step.phase == "play"
    ]
    spread = _mean_by_key([k for k, _ in played], [score for _, score in played])
    return [
        [
            _scale(score - means[step.episode][0], spread[step.episode][1], config) if step.phase == "play" else score
            for score, step in zip(scores[m], trajectory.steps, strict=True)
        ]
        for m, trajectory in enumerate(group)
    ]


def _centre_penalties(group: Group, config: CreditConfig) -> Group:
    """Subtract from each penalty its mean over the group at the same episode and phase, if the protocol says so."""
    if config.episode_baseline == "group":
        return group
    steps = [step for trajectory in group for step in trajectory.steps]
    means = _mean_by_key([(step.episode, step.phase) for step in steps], [step.penalty for step in steps])
    return [
        replace(
            trajectory,
            steps=tuple(
                step._replace(penalty=step.penalty - means[step.episode, step.phase][0]) for step in trajectory.steps
            ),
        )
        for trajectory in group
    ]


def _gigpo(group: Group, config: CreditConfig) -> Weights:
    """A = A_E + w * A_S (docs/method.md sections 4, 6.3 and 6.13)."""
    group = _centre_penalties(group, config)
    gs, _ = SCHEMES[config.returns].discount_rates(config.gamma_step, config.gamma_episode)
    returns = [
        returns_from_values(trajectory, values, gs, config.penalty_in_return)
        for trajectory, values in zip(group, _centred_values(group, config), strict=True)
    ]
    keys = [
        _anchor_key(step, trajectory, (m, i), config)
        for m, trajectory in enumerate(group)
        for i, step in enumerate(trajectory.steps)
    ]
    clusters = _mean_by_key(keys, [value for member in returns for value in member])
    position = iter(keys)
    weights = []
    for member_returns, member_scores in zip(returns, _episode_advantages(group, config), strict=True):
        member = []
        for value, score in zip(member_returns, member_scores, strict=True):
            mean, deviation, count = clusters[next(position)]
            by_step = _scale(value - mean, deviation, config) if count > 1 else 0.0
            member.append(score + config.step_weight * by_step)
        weights.append(member)
    return weights


def _grpo(group: Group, config: CreditConfig) -> Weights:
    """Every step of a member gets the member's score less the members' mean."""
    scheme = SCHEMES[config.returns]
    scores = [
        sum(scheme.rewards([episode.reward for episode in trajectory.episodes]))
        - sum(step.penalty for step in trajectory.steps)
        for trajectory in group
    ]
    mean, deviation, _ = _statistics(scores)
    return [
        [_scale(score - mean, deviation, config)] * len(trajectory.steps)
        for score, trajectory in zip(scores, group, strict=True)
    ]


def _rloo(group: Group, config: CreditConfig) -> Weights:
    """As GRPO, with the mean of the other members."""
    scale = len(group) / max(len(group) - 1, 1)
    return [[scale * value for value in member] for member in _grpo(group, config)]


def _decision_point(step: Step) -> Hashable:
    return ("reflection", step.episode) if step.phase == "reflect" else ("play", step.episode, step.hand)


def _returns(trajectory: Trajectory, config: CreditConfig, penalised: bool) -> list[float]:
    return step_returns(trajectory, config.returns, config.credit, config.gamma_step, config.gamma_episode, penalised)


def _member_mean(group: Group, config: CreditConfig) -> Weights:
    """G less the members' mean at the same hand; a member's decisions within the hand are averaged first."""
    return _less_mean_at_hand(group, [_returns(t, config, config.penalty_in_return) for t in group])


def _less_mean_at_hand(group: Group, returns: Weights) -> Weights:
    points: list[Hashable] = []
    means: list[float] = []
    for trajectory, member in zip(group, returns, strict=True):
        own = _mean_by_key([_decision_point(step) for step in trajectory.steps], member)
        points += own
        means += [mean for mean, _, _ in own.values()]
    baselines = _mean_by_key(points, means)
    return [
        [value - baselines[_decision_point(step)][0] for value, step in zip(member, trajectory.steps, strict=True)]
        for trajectory, member in zip(group, returns, strict=True)
    ]


def _exact(trajectories: Sequence[Trajectory], config: CreditConfig, critic: ExactCritic) -> Weights:
    """Q - V of a play step, 0 of a reflection, less the step's own penalty; `meta` adds the rest of the returns."""
    judged = critic.judge(trajectories)
    gains = [[0.0 if seen is None else seen.q - seen.v for seen in member] for member in judged]
    if config.horizon == "meta":
        gains = _with_rest(trajectories, gains, config)
    return [
        [gain - step.penalty for gain, step in zip(member, trajectory.steps, strict=True)]
        for member, trajectory in zip(gains, trajectories, strict=True)
    ]


def _with_rest(trajectories: Sequence[Trajectory], gains: Weights, config: CreditConfig) -> Weights:
    """Q - V as far as G counts the hand's reward, plus what else G holds less the members' mean at the same hand."""
    groups: dict[int, list[int]] = defaultdict(list)
    for index, trajectory in enumerate(trajectories):
        groups[trajectory.group].append(index)
    found = list(gains)
    for held in groups.values():
        group = [trajectories[index] for index in held]
        shares = [hand_shares(t, SCHEMES[config.returns], config.gamma_step, config.gamma_episode) for t in group]
        rest = [
            [value - share * reward for value, (share, reward) in zip(_returns(t, config, False), member, strict=True)]
            for t, member in zip(group, shares, strict=True)
        ]
        for index, member, others in zip(held, shares, _less_mean_at_hand(group, rest), strict=True):
            found[index] = [
                share * gain + other for (share, _), gain, other in zip(member, gains[index], others, strict=True)
            ]
    return found


def _divide_by_opponent(trajectories: Sequence[Trajectory], weights: Weights, config: CreditConfig) -> Weights:
    """Divides by the sample standard deviation over all samples of the opponent (or of the rollout)."""
    keys = [t.opponent if config.statistics == "agent" else "" for t in trajectories]
    flat = [key for key, member in zip(keys, weights, strict=True) for _ in member]
    spread = _mean_by_key(flat, [value for member in weights for value in member])
    return [
        [_scale(value, spread[key][1], config) for value in member] for key, member in zip(keys, weights, strict=True)
    ]


ADVANTAGES: Mapping[str, Callable[[Group, CreditConfig], Weights]] = {
    "gigpo": _gigpo,
    "grpo": _grpo,
    "rloo": _rloo,
    "member_mean": _member_mean,
}
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "returns": tuple(SCHEMES),
    "credit": ("episode", "reward"),
    "advantage": (*ADVANTAGES, "exact"),
    "horizon": ("hand", "meta"),
    "anchor": ("global", "local"),
    "advantage_norm": ("mean", "mean_std"),
    "statistics": ("agent", "pooled"),
    "episode_baseline": ("episode", "group"),
    "reflection_anchor": REFLECTION_ANCHORS,
}


def screened(trajectories: Sequence[Trajectory], config: CreditConfig) -> list[Trajectory]:
    """The trajectories, of which those whose rewards or returns are not finite are failures of these kinds."""
    return [_screened(trajectory, config) for trajectory in trajectories]


def _screened(trajectory: Trajectory, config: CreditConfig) -> Trajectory:
    if trajectory.failure is not None:
        return trajectory
    wrong = bad_pay(trajectory.steps, trajectory.episodes)
    if wrong is not None:
        return masked(trajectory, REWARD, wrong)
    gs, gt = config.gamma_step, config.gamma_episode
    wrong = bad_returns(step_returns(trajectory, config.returns, config.credit, gs, gt, config.penalty_in_return))
    return trajectory if wrong is None else masked(trajectory, RETURN, wrong)


def without_variance(trajectories: Sequence[Trajectory]) -> set[int]:
    """Return the groups whose members, without those that failed, all have the same rewards and the same penalties."""
    kinds: dict[int, set[Hashable]] = defaultdict(set)
    for trajectory in trajectories:
        if trajectory.failure is None:
            rewards = tuple(episode.reward for episode in trajectory.episodes)
            # Steps without a penalty are left out: members may differ in their number of steps.
            fined = tuple(
                (step.episode, step.phase, step.turn, step.penalty) for step in trajectory.steps if step.penalty
            )
            kinds[trajectory.group].add((rewards, fined))
    return {trajectory.group for trajectory in trajectories if len(kinds[trajectory.group]) < 2}


def variance_metrics(played: Sequence[Trajectory], trained: Sequence[Trajectory]) -> dict[str, float]:
    """Shares of the groups: without variance among all that were played, and dropped in favour of other tasks."""
    groups = {trajectory.group for trajectory in played}
    dropped = groups - {trajectory.group for trajectory in trained}
    return {
        "groups/zero_variance": len(without_variance(played)) / max(len(groups), 1),
        "groups/dropped": len(dropped) / max(len(groups), 1),
    }


def weigh(
    trajectories: Sequence[Trajectory], config: CreditConfig, critic: ExactCritic | None = None
) -> tuple[Weights, dict[str, float]]:
    """One advantage per step of every trajectory, and metrics.

    Statistics are taken per group (`statistics="pooled"`: over all trajectories at once). Trajectories that failed
    get zeros and count in no mean, and so do those whose rewards or returns are not finite (`screened`); an advantage
    that is not finite is 0, and counted in `advantages/not_finite`. `critic` is what `advantage="exact"` asks.
    Metrics: `groups/zero_variance`, the share of groups whose members all have the same episode rewards and the same
    penalties; `groups/count`.
    """
    trajectories = screened(trajectories, config)
    groups: dict[int, list[int]] = defaultdict(list)
    for index, trajectory in enumerate(trajectories):
        if trajectory.failure is None:
            groups[trajectory.group].append(index)
    weights: Weights = [[0.0] * len(trajectory.steps) for trajectory in trajectories]
    kept = [index for held in groups.values() for index in held]

    def fill(indices: Sequence[int], members: Weights) -> None:
        for index, member in zip(indices, members, strict=True):
            weights[index] = member

    if config.advantage == "exact":
        if critic is None:
            raise ValueError("advantage='exact' needs the critic of the game: weigh(..., critic=ExactCritic.of(env)).")
        fill(kept, _exact([trajectories[index] for index in kept], config, critic))
    else:
        compute = ADVANTAGES[config.advantage]
        for held in groups.values() if config.statistics == "agent" else [kept] if kept else []:
            fill(held, compute([trajectories[index] for index in held], config))
    if config.advantage in ("member_mean", "exact") and config.advantage_norm == "mean_std":
        fill(kept, _divide_by_opponent([trajectories[i] for i in kept], [weights[i] for i in kept], config))
    bad = [index for index in kept if not all(map(isfinite, weights[index]))]
    fill(bad, [[0.0] * len(weights[index]) for index in bad])
    dull = without_variance(trajectories) & groups.keys()
    metrics = {"groups/count": float(len(groups)), "groups/zero_variance": len(dull) / max(len(groups), 1)}
    if bad:
        metrics["advantages/not_finite"] = float(len(bad))
    return weights, metrics
