"""Returns of a meta-episode (docs/method.md, section 3): one number per step from task rewards. No NumPy, no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from trainer.trajectory import Step, Trajectory

Rewards = Sequence[float]


def differential_rewards(rewards: Rewards) -> list[float]:
    """dR_0 = R_0, dR_k = R_k - R_{k-1} (equation 5)."""
    return [reward - (rewards[k - 1] if k else 0.0) for k, reward in enumerate(rewards)]


def _final(rewards: Rewards) -> list[float]:
    return [0.0] * (len(rewards) - 1) + list(rewards[-1:])


@dataclass(frozen=True)
class ReturnScheme:
    """How episode rewards become the D_k that returns are made of."""

    rewards: Callable[[Rewards], list[float]]
    crosses_episodes: bool = True
    """Whether later episodes count in earlier returns; if not, gt is 0."""
    discounts: bool = True
    """If not, gs = gt = 1."""

    def discount_rates(self, gamma_step: float, gamma_episode: float) -> tuple[float, float]:
        """(gs, gt) that the scheme really uses."""
        if not self.discounts:
            return 1.0, 1.0
        return gamma_step, gamma_episode if self.crosses_episodes else 0.0


SCHEMES: Mapping[str, ReturnScheme] = {
    "differential": ReturnScheme(differential_rewards),
    "cumulative": ReturnScheme(list),
    "single_episode": ReturnScheme(list, crosses_episodes=False),
    "final": ReturnScheme(_final, discounts=False),
}
"""The paper's differential returns; LaMer's cumulative ones; the ablation of single episodes; only the last pays."""


def play_steps(trajectory: Trajectory) -> list[list[int]]:
    """Indices of the play steps of each played episode."""
    indices: list[list[int]] = [[] for _ in trajectory.episodes]
    for index, step in enumerate(trajectory.steps):
        if step.phase == "play" and step.episode < len(indices):
            indices[step.episode].append(index)
    return indices


def episode_values(trajectory: Trajectory, scheme: ReturnScheme, gs: float, gt: float) -> list[float]:
    """E_k = D_k + gt * G_{k+1,0} without penalties, for every played episode."""
    rewards = scheme.rewards([episode.reward for episode in trajectory.episodes])
    lengths = [len(steps) for steps in play_steps(trajectory)]
    values = [0.0] * len(rewards)
    following = 0.0
    for k in reversed(range(len(rewards))):
        values[k] = rewards[k] + gt * following
        following = gs ** max(lengths[k] - 1, 0) * values[k]
    return values


def penalties_to_come(steps: Sequence[Step], indices: Sequence[int], gs: float) -> dict[int, float]:
    """P_{k,t} of one episode's play steps: the discounted penalties from t on, as a non-positive number."""
    to_come = 0.0
    found: dict[int, float] = {}
    for index in reversed(indices):
        to_come = -steps[index].penalty + gs * to_come
        found[index] = to_come
    return found


def returns_from_values(trajectory: Trajectory, values: Sequence[float], gs: float, penalised: bool) -> list[float]:
    """G_{k,t} = gs^(T_k-1-t) * E_k (+ P_{k,t}); a reflection has the G of its episode's first step (less its own
    penalty). `values` holds the E_k, raw or centred."""
    returns = [0.0] * len(trajectory.steps)
    for k, indices in enumerate(play_steps(trajectory)):
        owed = penalties_to_come(trajectory.steps, indices, gs) if penalised else {}
        for t, index in enumerate(indices):
            returns[index] = gs ** (len(indices) - 1 - t) * values[k] + owed.get(index, 0.0)
    return _with_reflections(trajectory, returns, penalised)


def returns_per_reward(
    trajectory: Trajectory, scheme: ReturnScheme, gs: float, gt: float, penalised: bool
) -> list[float]:
    """Returns with each hand's reward credited at the step that ends the hand (`credit="reward"`).

    G_{k,t} = sum_{t'>=t} gs^(t'-t) r_{k,t'} - B_k + gs^(T_k-1-t) * gt * F_{k+1}, where F_k = D_k + gt * F_{k+1}
    and B_k is what D_k takes off R_k (R_{k-1} for differential returns, 0 for the others).
    """
    rewards = [episode.reward for episode in trajectory.episodes]
    paid = scheme.rewards(rewards)
    following = [0.0] * (len(rewards) + 1)
    for k in reversed(range(len(rewards))):
        following[k] = paid[k] + gt * following[k + 1]
    returns = [0.0] * len(trajectory.steps)
    for k, indices in enumerate(play_steps(trajectory)):
        counts = k == len(rewards) - 1 or scheme.discounts
        baseline = rewards[k] - paid[k] if counts else 0.0
        owed = penalties_to_come(trajectory.steps, indices, gs) if penalised else {}
        to_come = 0.0
        for back, index in enumerate(reversed(indices)):
            to_come = (trajectory.steps[index].reward if counts else 0.0) + gs * to_come
            returns[index] = to_come - baseline + gs**back * gt * following[k + 1] + owed.get(index, 0.0)
    return _with_reflections(trajectory, returns, penalised)


def hand_shares(trajectory: Trajectory, scheme: ReturnScheme, gs: float, gt: float) -> list[tuple[float, float]]:
    """(c, r) of every step under `credit="reward"`: r is the reward of its own hand, and G holds c * r of it.

    c is not 1: G discounts r to the hand's end, and a differential return takes it off again in the next episode.
    Reflections have (0, 0).
    """
    gs, gt = scheme.discount_rates(gs, gt)
    planned = len(trajectory.episodes)
    shares = [(0.0, 0.0)] * len(trajectory.steps)
    for k, indices in enumerate(play_steps(trajectory)):
        paid = scheme.rewards([1.0 if index == k else 0.0 for index in range(planned)])
        later = sum(gt ** (j - k) * paid[j] for j in range(k + 1, planned))
        counts = k == planned - 1 or scheme.discounts
        reward, ahead = 0.0, 0.0
        for back, index in enumerate(reversed(indices)):
            step = trajectory.steps[index]
            reward, ahead = (step.reward, 1.0) if step.hand_end else (reward, gs * ahead)
            shares[index] = (ahead if counts else 0.0) + gs**back * later, reward
    return shares


def _with_reflections(trajectory: Trajectory, returns: list[float], penalised: bool) -> list[float]:
    first = [returns[indices[0]] if indices else 0.0 for indices in play_steps(trajectory)]
    for index, step in enumerate(trajectory.steps):
        if step.phase == "reflect":
            upcoming = first[step.episode] if step.episode < len(first) else 0.0
            returns[index] = upcoming - (step.penalty if penalised else 0.0)
    return returns


def step_returns(
    trajectory: Trajectory,
    returns: str = "differential",
    credit: str = "episode",
    gamma_step: float = 0.95,
    gamma_episode: float = 0.6,
    penalised: bool = True,
) -> list[float]:
    """One return per step (equation 7); see `SCHEMES` for `returns`, `penalised` for the protocol's choice.

    What gamma_episode (gt) does: with gs = 1, sum_k gt^k dR_k weighs R_0, R_1, R_2 by .40/.24/.36 at gt = .6,
    .10/.09/.81 at .9 and 0/0/1 at 1. The paper's .6 is therefore not "only the final episode counts".
    """
    scheme = SCHEMES[returns]
    gs, gt = scheme.discount_rates(gamma_step, gamma_episode)
    if credit == "reward":
        return returns_per_reward(trajectory, scheme, gs, gt, penalised)
    return returns_from_values(trajectory, episode_values(trajectory, scheme, gs, gt), gs, penalised)
