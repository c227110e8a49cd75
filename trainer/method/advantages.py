"""Advantages of a rollout (docs/method.md sections 4 and 6): one number per step of every trajectory. NumPy only.

Shapes: a group has M members (trajectories), member m has T_m steps (model calls, reflections included) and K played
episodes. Values per step are ragged lists [M][T_m]; values per episode are ragged lists [M][K].
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite

import numpy as np

from mage_envs.loading.options import check_choice
from mage_envs.trainer.method.components import ADVANTAGES, RETURNS, divided_by_opponent, is_divided_by_opponent
from mage_envs.trainer.method.critic import ExactCritic
from mage_envs.trainer.method.returns import episode_values, hand_shares, returns_from_values, scheme_of, step_returns
from mage_envs.wrappers import ADAPTIVE, Protocol
from mage_envs.wrappers.protocol import REFLECTION_ANCHORS
from mage_envs.wrappers.rollout.trajectory import (
    RETURN,
    REWARD,
    Step,
    Trajectory,
    bad_pay,
    bad_returns,
    mask_trajectory,
)

EPSILON = 1e-6
"""Added to a standard deviation before the division by it."""


@dataclass(frozen=True)
class CreditConfig:
    """Settings that turn rewards into advantages."""

    returns: str = "differential"
    """Scheme of the returns, a registered name (`differential` is the paper's, `cumulative` LaMer's) or
    `module:function`."""
    credit: str = "episode"
    """Step that receives a reward: `episode` (the episode's last step) or `reward` (the last step of each hand)."""
    gamma_step: float = 0.95
    """Discount per play step (gs)."""
    gamma_episode: float = 0.6
    """Discount across episodes (gt); `step_returns` shows how it weighs them."""
    advantage: str = "gigpo"
    """Estimator: a registered name (`exact` is Q - V of the exact critic, critic.py) or `module:function`."""
    horizon: str = "hand"
    """Horizon of `exact`: `hand` counts only the step's own hand, `meta` adds the sampled rest of the meta-episode."""
    anchor: str = "global"
    """Steps with equal observations that form a cluster: `global` (of all episodes) or `local` (of one episode)."""
    advantage_norm: str = "mean"
    """Normalisation: `mean`, or `mean_std`, which also divides by the sample standard deviation (n - 1)."""
    step_weight: float = 1.0
    """Weight w in A = A_E + w * A_S."""
    statistics: str = "opponent"
    """Samples of the statistics: `opponent` (per group and opponent) or `pooled` (over the whole rollout)."""
    penalty_in_return: bool = ADAPTIVE.penalty_in_return
    episode_baseline: str = ADAPTIVE.episode_baseline
    reflection_anchor: str = ADAPTIVE.reflection_anchor

    def __post_init__(self) -> None:
        RETURNS.check(self.returns)
        ADVANTAGES.check(self.advantage)
        for name, choices in _CHOICES.items():
            check_choice(name, vars(self)[name], choices)
        if self.credit == "reward" and self.advantage == "gigpo":
            raise ValueError(
                'credit="reward" has no episode value for GiGPO to centre. '
                'Use advantage="member_mean" or credit="episode".'
            )
        if self.advantage == "exact" and self.credit != "reward":
            raise ValueError('advantage="exact" needs the reward of each hand at the hand\'s end. Use credit="reward".')

    @classmethod
    def from_protocol(cls, protocol: Protocol, **kwargs: object) -> CreditConfig:
        """Return a config whose three protocol-dependent fields come from the protocol."""
        return cls(
            penalty_in_return=protocol.penalty_in_return,
            episode_baseline=protocol.episode_baseline,
            reflection_anchor=protocol.reflection_anchor,
            **kwargs,  # type: ignore[arg-type]
        )


Group = list[Trajectory]
"""The M members that play the same task; under `pooled`, all trajectories of the rollout."""
Weights = list[list[float]]
"""One number per step, [M][T_m], in the order of the trajectories."""


def _mean_by_key(keys: Sequence[Hashable], values: Sequence[float]) -> dict[Hashable, tuple[float, float, int]]:
    """Return (mean, sample standard deviation, count) of the values of each key."""
    values_by_key: dict[Hashable, list[float]] = defaultdict(list)
    for key, value in zip(keys, values, strict=True):
        values_by_key[key].append(value)
    return {key: _statistics(key_values) for key, key_values in values_by_key.items()}


def _statistics(values: list[float]) -> tuple[float, float, int]:
    """Return (mean, sample standard deviation, count) of a non-empty list."""
    low, high = min(values), max(values)
    # NumPy's mean of equal values can differ from them by rounding. Equal values must get an advantage of exactly 0.
    if low == high:
        return low, 0.0, len(values)
    array = np.asarray(values)
    return float(array.mean()), float(array.std(ddof=1)), len(values)


def _scale(value: float, deviation: float, config: CreditConfig) -> float:
    """Return the value divided by the deviation under `mean_std`, and the value itself if the deviation is 0."""
    # Without deviation the remaining value is a penalty. A division by EPSILON would multiply it by a million.
    return value / (deviation + EPSILON) if config.advantage_norm == "mean_std" and deviation else value


def _anchor_key(step: Step, trajectory: Trajectory, index: tuple[int, int], config: CreditConfig) -> Hashable:
    """Return the cluster of a step, with which A_S compares its return; `index` is (member, step)."""
    # Members of a non-stationary group meet different opponents, so the opponent splits clusters. `pooled` mixes all.
    opponent = trajectory.opponent if config.statistics == "opponent" else ""
    if step.phase == "reflect":
        # `shared` compares all reflections, `episode` those before the same episode. `alone` makes each a singleton,
        # whose A_S is 0.
        if config.reflection_anchor == "alone":
            return ("alone", index)
        return ("reflection", opponent, step.episode if config.reflection_anchor == "episode" else -1)
    # GiGPO's anchor state: the environment's raw observation, without history, memory or prompt text.
    return ("play", step.anchor, opponent, step.episode if config.anchor == "local" else -1)


def _centre_values(group: Group, config: CreditConfig) -> Weights:
    """Return E_k of each member, [M][K]. Subtract the members' mean at the same k if the protocol centres episodes."""
    # E_k = D_k + gt * G_{k+1,0}, without penalties (docs/method.md section 3).
    scheme = scheme_of(config.returns)
    gs, gt = scheme.discount_rates(config.gamma_step, config.gamma_episode)
    values = [episode_values(trajectory, scheme, gs, gt) for trajectory in group]
    if config.episode_baseline == "group":
        return values
    # Section 6.3: centred per episode over the members, so that members that did the same get exactly 0.
    keys = [k for member in values for k in range(len(member))]
    means = _mean_by_key(keys, [value for member in values for value in member])
    return [[value - means[k][0] for k, value in enumerate(member)] for member in values]


def _episode_advantages(group: Group, config: CreditConfig) -> Weights:
    """Return A_E of every step, [M][T_m]."""
    # S_i = D_k of the step's episode (0 for a reflection) less the step's own penalty. `paid` holds D_k, [M][K].
    scheme = scheme_of(config.returns)
    paid = [scheme.rewards([episode.reward for episode in trajectory.episodes]) for trajectory in group]
    scores = [
        [(paid[m][step.episode] if step.phase == "play" else 0.0) - step.penalty for step in trajectory.steps]
        for m, trajectory in enumerate(group)
    ]
    # Protocol `paper`: A_E = S_i - mean(S), over all samples of the group at once.
    if config.episode_baseline == "group":
        mean, deviation, _ = _statistics([score for member in scores for score in member])
        return [[_scale(score - mean, deviation, config) for score in member] for member in scores]
    # Protocol `adaptive`: A_E = S_i - mean over the members of D_k. The mean counts each member once per episode,
    # however many steps it took, and leaves penalties out (`_centre_penalties` has centred them already).
    keys = [k for member in paid for k in range(len(member))]
    means = _mean_by_key(keys, [value for member in paid for value in member])
    # The deviation is that of S over the play steps of the episode.
    play_scores = [
        (step.episode, score)
        for member, trajectory in zip(scores, group, strict=True)
        for score, step in zip(member, trajectory.steps, strict=True)
        if step.phase == "play"
    ]
    spread = _mean_by_key([k for k, _ in play_scores], [score for _, score in play_scores])
    # A reflection pays nothing, so its A_E is only its (centred) penalty.
    return [
        [
            _scale(score - means[step.episode][0], spread[step.episode][1], config) if step.phase == "play" else score
            for score, step in zip(scores[m], trajectory.steps, strict=True)
        ]
        for m, trajectory in enumerate(group)
    ]


def _centre_penalties(group: Group, config: CreditConfig) -> Group:
    """Subtract from each penalty its mean at the same episode and phase, if the protocol centres episodes."""
    # Section 6.13: p - mean(p) over the group's steps of the same (episode, phase). Without this baseline, members
    # with equal rewards and equal penalties would all get the same negative advantage.
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


def gigpo(group: Group, config: CreditConfig) -> Weights:
    """Return A = A_E + w * A_S (docs/method.md sections 4, 6.3 and 6.13)."""
    group = _centre_penalties(group, config)
    # G_{k,t} = gs^(T_k - 1 - t) * E_k, less the discounted penalties if the protocol counts them: [M][T_m].
    gs, _ = scheme_of(config.returns).discount_rates(config.gamma_step, config.gamma_episode)
    returns = [
        returns_from_values(trajectory, values, gs, config.penalty_in_return)
        for trajectory, values in zip(group, _centre_values(group, config), strict=True)
    ]
    # A_S = G_i - mean(G) over the steps with the same anchor. `keys` is flat, (sum of T_m,), member after member.
    keys = [
        _anchor_key(step, trajectory, (m, i), config)
        for m, trajectory in enumerate(group)
        for i, step in enumerate(trajectory.steps)
    ]
    clusters = _mean_by_key(keys, [value for member in returns for value in member])
    # The loops below visit the steps in the order of `keys`, so one iterator yields the key of each step.
    position = iter(keys)
    weights = []
    for member_returns, member_scores in zip(returns, _episode_advantages(group, config), strict=True):
        member = []
        for value, score in zip(member_returns, member_scores, strict=True):
            mean, deviation, count = clusters[next(position)]
            # A cluster of one step has no other return to compare with.
            by_step = _scale(value - mean, deviation, config) if count > 1 else 0.0
            member.append(score + config.step_weight * by_step)
        weights.append(member)
    return weights


def grpo(group: Group, config: CreditConfig) -> Weights:
    """Return the member's score less the members' mean, for every step of the member."""
    # Score: sum over k of D_k, less all penalties of the member (arXiv 2402.03300; docs/method.md section 6.12): (M,).
    scheme = scheme_of(config.returns)
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


def rloo(group: Group, config: CreditConfig) -> Weights:
    """Return GRPO's advantages with the mean of the other members as the baseline."""
    # x - mean of the other M - 1 members = M / (M - 1) * (x - mean of all M).
    scale = len(group) / max(len(group) - 1, 1)
    return [[scale * value for value in member] for member in grpo(group, config)]


def _decision_point(step: Step) -> Hashable:
    """Return the key of the hand that a play step belongs to, or of the episode that a reflection precedes."""
    return ("reflection", step.episode) if step.phase == "reflect" else ("play", step.episode, step.hand)


def _returns(trajectory: Trajectory, config: CreditConfig, penalised: bool) -> list[float]:
    """Return G of every step of a trajectory, (T_m,)."""
    return step_returns(trajectory, config.returns, config.credit, config.gamma_step, config.gamma_episode, penalised)


@divided_by_opponent
def member_mean(group: Group, config: CreditConfig) -> Weights:
    """Return G less the members' mean at the same hand."""
    return _less_mean_at_hand(group, [_returns(t, config, config.penalty_in_return) for t in group])


def _less_mean_at_hand(group: Group, returns: Weights) -> Weights:
    """Subtract from each value the mean over the members at the same decision point."""
    # A member's own decisions in the hand are averaged first, so that a member with more turns does not count more.
    points: list[Hashable] = []
    means: list[float] = []
    for trajectory, member in zip(group, returns, strict=True):
        member_means = _mean_by_key([_decision_point(step) for step in trajectory.steps], member)
        points += member_means
        means += [mean for mean, _, _ in member_means.values()]
    baselines = _mean_by_key(points, means)
    return [
        [value - baselines[_decision_point(step)][0] for value, step in zip(member, trajectory.steps, strict=True)]
        for trajectory, member in zip(group, returns, strict=True)
    ]


@divided_by_opponent
def exact(trajectories: Sequence[Trajectory], config: CreditConfig, critic: ExactCritic) -> Weights:
    """Return Q - V of a play step and 0 of a reflection, less the step's own penalty.

    With `horizon="meta"` the sampled rest of the return is added.
    """
    # Q(I, a) - V(I) per step, [M][T_m]: the luck of the deal and of the opponent's draws is integrated out.
    decision_values = critic.judge(trajectories)
    gains = [[0.0 if value is None else value.q - value.v for value in member] for member in decision_values]
    if config.horizon == "meta":
        gains = _with_rest(trajectories, gains, config)
    return [
        [gain - step.penalty for gain, step in zip(member, trajectory.steps, strict=True)]
        for member, trajectory in zip(gains, trajectories, strict=True)
    ]


def _with_rest(trajectories: Sequence[Trajectory], gains: Weights, config: CreditConfig) -> Weights:
    """Return c * (Q - V) plus the rest of G, centred over the members at the same hand.

    G counts the reward r of the step's own hand with the factor c (`hand_shares`). The rest is G - c * r.
    """
    # `judge` needs all trajectories at once, but a baseline belongs to a group, so the group is rebuilt here.
    groups: dict[int, list[int]] = defaultdict(list)
    for index, trajectory in enumerate(trajectories):
        groups[trajectory.group].append(index)
    total_gains = list(gains)
    for indices in groups.values():
        group = [trajectories[index] for index in indices]
        shares = [hand_shares(t, scheme_of(config.returns), config.gamma_step, config.gamma_episode) for t in group]
        # G without penalties, because `exact` subtracts the step's own penalty afterwards.
        remainders = [
            [value - share * reward for value, (share, reward) in zip(_returns(t, config, False), member, strict=True)]
            for t, member in zip(group, shares, strict=True)
        ]
        for index, member, surpluses in zip(indices, shares, _less_mean_at_hand(group, remainders), strict=True):
            total_gains[index] = [
                share * gain + surplus
                for (share, _), gain, surplus in zip(member, gains[index], surpluses, strict=True)
            ]
    return total_gains


def _divide_by_opponent(trajectories: Sequence[Trajectory], weights: Weights, config: CreditConfig) -> Weights:
    """Divide by the sample standard deviation over all samples of the opponent (under `pooled`, of the rollout)."""
    # All groups of an opponent share one deviation (docs/method.md section 4).
    keys = [t.opponent if config.statistics == "opponent" else "" for t in trajectories]
    flat = [key for key, member in zip(keys, weights, strict=True) for _ in member]
    spread = _mean_by_key(flat, [value for member in weights for value in member])
    return [
        [_scale(value, spread[key][1], config) for value in member] for key, member in zip(keys, weights, strict=True)
    ]


_CHOICES: Mapping[str, tuple[str, ...]] = {
    "credit": ("episode", "reward"),
    "horizon": ("hand", "meta"),
    "anchor": ("global", "local"),
    "advantage_norm": ("mean", "mean_std"),
    "statistics": ("opponent", "pooled"),
    "episode_baseline": ("episode", "group"),
    "reflection_anchor": REFLECTION_ANCHORS,
}


def mask_non_finite(trajectories: Sequence[Trajectory], config: CreditConfig) -> list[Trajectory]:
    """Return the trajectories, each marked as a failure if a reward, a penalty or a return of it is not finite."""
    return [_mask_non_finite(trajectory, config) for trajectory in trajectories]


def _mask_non_finite(trajectory: Trajectory, config: CreditConfig) -> Trajectory:
    if trajectory.failure is not None:
        return trajectory
    wrong = bad_pay(trajectory.steps, trajectory.episodes)
    if wrong is not None:
        return mask_trajectory(trajectory, REWARD, wrong)
    # Finite rewards can still add up to a return that overflows.
    gs, gt = config.gamma_step, config.gamma_episode
    wrong = bad_returns(step_returns(trajectory, config.returns, config.credit, gs, gt, config.penalty_in_return))
    return trajectory if wrong is None else mask_trajectory(trajectory, RETURN, wrong)


def without_variance(trajectories: Sequence[Trajectory]) -> set[int]:
    """Return the groups whose members all have the same rewards and the same penalties; failed members are ignored."""
    kinds: dict[int, set[Hashable]] = defaultdict(set)
    for trajectory in trajectories:
        if trajectory.failure is None:
            rewards = tuple(episode.reward for episode in trajectory.episodes)
            # Steps without a penalty are omitted, because members may differ in their number of steps.
            fined = tuple(
                (step.episode, step.phase, step.turn, step.penalty) for step in trajectory.steps if step.penalty
            )
            kinds[trajectory.group].add((rewards, fined))
    return {trajectory.group for trajectory in trajectories if len(kinds[trajectory.group]) < 2}


def variance_metrics(trajectories: Sequence[Trajectory], trained: Sequence[Trajectory]) -> dict[str, float]:
    """Return the share of played groups without variance, and the share of groups that were dropped and redrawn."""
    groups = {trajectory.group for trajectory in trajectories}
    dropped = groups - {trajectory.group for trajectory in trained}
    return {
        "groups/zero_variance": len(without_variance(trajectories)) / max(len(groups), 1),
        "groups/dropped": len(dropped) / max(len(groups), 1),
    }


def compute_advantages(
    trajectories: Sequence[Trajectory], config: CreditConfig, critic: ExactCritic | None = None
) -> tuple[Weights, dict[str, float]]:
    """Compute one advantage per step of every trajectory.

    Statistics are computed per group, or over all trajectories at once with `statistics="pooled"`. A failed trajectory
    gets zeros and is excluded from every mean. So is a trajectory with a reward or return that is not finite
    (`mask_non_finite`). If an advantage is not finite, all advantages of its trajectory are 0.

    Args:
        trajectories: Trajectories of a rollout, groups in any order.
        config: Settings of returns, estimator and normalisation.
        critic: Exact critic of the game; required for `advantage="exact"`, otherwise unused.

    Returns:
        The advantages [trajectory][step], and metrics: `groups/count`; `groups/zero_variance`, the share of groups
        whose members all have the same episode rewards and the same penalties; and, if any, `advantages/not_finite`,
        the number of trajectories with an advantage that is not finite.

    Raises:
        ValueError: If `advantage="exact"` and `critic` is None.
    """
    trajectories = mask_non_finite(trajectories, config)
    groups: dict[int, list[int]] = defaultdict(list)
    for index, trajectory in enumerate(trajectories):
        if trajectory.failure is None:
            groups[trajectory.group].append(index)
    weights: Weights = [[0.0] * len(trajectory.steps) for trajectory in trajectories]
    indices = [index for group_indices in groups.values() for index in group_indices]

    def fill(positions: Sequence[int], members: Weights) -> None:
        for index, member in zip(positions, members, strict=True):
            weights[index] = member

    compute = ADVANTAGES.find(config.advantage)
    if compute is exact:
        if critic is None:
            raise ValueError(
                "advantage='exact' needs the critic of the game: compute_advantages(..., critic=ExactCritic.of(env))."
            )
        # All groups at once: the critic estimates the learner's own frequencies from the whole rollout.
        fill(indices, exact([trajectories[index] for index in indices], config, critic))
    else:
        parts = list(groups.values())
        if config.statistics == "pooled":
            parts = [indices] if indices else []
        for group_indices in parts:
            fill(group_indices, compute([trajectories[index] for index in group_indices], config))
    if is_divided_by_opponent(compute) and config.advantage_norm == "mean_std":
        fill(indices, _divide_by_opponent([trajectories[i] for i in indices], [weights[i] for i in indices], config))
    # A difference or a quotient of finite returns can overflow. Zeros remove that trajectory from the gradient, and
    # the metric shows it.
    bad = [index for index in indices if not all(map(isfinite, weights[index]))]
    fill(bad, [[0.0] * len(weights[index]) for index in bad])
    dull = without_variance(trajectories) & groups.keys()
    metrics = {"groups/count": float(len(groups)), "groups/zero_variance": len(dull) / max(len(groups), 1)}
    if bad:
        metrics["advantages/not_finite"] = float(len(bad))
    return weights, metrics
