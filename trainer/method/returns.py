"""Returns of a meta-episode (docs/method.md, section 3): one number per step, from task rewards. No NumPy, no torch.

Symbols: K is the number of played episodes, T_k the number of play steps in episode k. S is the number of all steps,
reflections included. gs is the step discount and gt the episode discount.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mage_envs.trainer.method.components import RETURNS
from mage_envs.wrappers.rollout.trajectory import Step, Trajectory

Rewards = Sequence[float]


def differential_rewards(rewards: Rewards) -> list[float]:
    """Return dR_0 = R_0, dR_k = R_k - R_{k-1} (equation 5), shape (K,)."""
    return [reward - (rewards[k - 1] if k else 0.0) for k, reward in enumerate(rewards)]


@dataclass(frozen=True)
class ReturnScheme:
    """Rule that turns episode rewards R_k into the D_k of the returns."""

    rewards: Callable[[Rewards], list[float]]
    crosses_episodes: bool = True
    """True if later episodes count in earlier returns; otherwise gt is 0."""
    discounts: bool = True
    """True if returns are discounted; otherwise gs = gt = 1."""

    def discount_rates(self, gamma_step: float, gamma_episode: float) -> tuple[float, float]:
        """Return (gs, gt) as the scheme uses them."""
        if not self.discounts:
            return 1.0, 1.0
        return gamma_step, gamma_episode if self.crosses_episodes else 0.0


def scheme_of(name: str) -> ReturnScheme:
    """Return the scheme of a registered name, or of `module:function`."""
    function = RETURNS.find(name)
    return ReturnScheme(function, getattr(function, "crosses_episodes", True), getattr(function, "discounts", True))


# The other built-in schemes: LaMer's cumulative returns, the ablation of single episodes, and `final`, under which only
# the last episode pays. The paper's is `differential_rewards`.


def cumulative(rewards: Rewards) -> list[float]:
    """Return R_k, shape (K,)."""
    return list(rewards)


def single_episode(rewards: Rewards) -> list[float]:
    """Return R_k, shape (K,); no episode counts in the returns of another."""
    return list(rewards)


single_episode.crosses_episodes = False  # type: ignore[attr-defined]


def final(rewards: Rewards) -> list[float]:
    """Return 0 for all episodes but the last, shape (K,)."""
    return [0.0] * (len(rewards) - 1) + list(rewards[-1:])


final.discounts = False  # type: ignore[attr-defined]


def play_steps(trajectory: Trajectory) -> list[list[int]]:
    """Return the indices of the play steps of each played episode: K lists of T_k indices."""
    indices: list[list[int]] = [[] for _ in trajectory.episodes]
    for index, step in enumerate(trajectory.steps):
        if step.phase == "play" and step.episode < len(indices):
            indices[step.episode].append(index)
    return indices


def episode_values(trajectory: Trajectory, scheme: ReturnScheme, gs: float, gt: float) -> list[float]:
    """Return E_k = D_k + gt * G_{k+1,0} of every played episode, without penalties.

    Args:
        gs: Step discount as the scheme uses it.
        gt: Episode discount as the scheme uses it.

    Returns:
        E_k, shape (K,), in units of R.
    """
    # D_k: (K,). T_k: (K,).
    rewards = scheme.rewards([episode.reward for episode in trajectory.episodes])
    lengths = [len(steps) for steps in play_steps(trajectory)]
    values = [0.0] * len(rewards)
    # Backwards over k, because E_k needs G_{k+1,0} = gs^(T_{k+1} - 1) * E_{k+1}. G after the last episode is 0. An
    # episode without play steps passes its value on undiscounted.
    following = 0.0
    for k in reversed(range(len(rewards))):
        values[k] = rewards[k] + gt * following
        following = gs ** max(lengths[k] - 1, 0) * values[k]
    return values


def penalties_to_come(steps: Sequence[Step], indices: Sequence[int], gs: float) -> dict[int, float]:
    """Return P_{k,t}, the discounted penalties from t on, for the play steps of one episode.

    Args:
        steps: All steps of the meta-episode.
        indices: Indices of the episode's play steps.

    Returns:
        P_{k,t} by step index: at most 0, unless the penalties are centred.
    """
    to_come = 0.0
    penalties: dict[int, float] = {}
    for index in reversed(indices):
        # P_{k,t} = -p_{k,t} + gs * P_{k,t+1}. Penalties do not cross episodes: P after the last step is 0.
        to_come = -steps[index].penalty + gs * to_come
        penalties[index] = to_come
    return penalties


def returns_from_values(trajectory: Trajectory, values: Sequence[float], gs: float, penalised: bool) -> list[float]:
    """Return G_{k,t} = gs^(T_k-1-t) * E_k of every step, plus P_{k,t} if `penalised`.

    A reflection has the G of its episode's first step, less its own penalty.

    Args:
        values: E_k, shape (K,), raw or centred.
        penalised: True if penalties are part of the return.

    Returns:
        G of every step, shape (S,).
    """
    returns = [0.0] * len(trajectory.steps)
    for k, indices in enumerate(play_steps(trajectory)):
        owed = penalties_to_come(trajectory.steps, indices, gs) if penalised else {}
        for t, index in enumerate(indices):
            # G_{k,t} = gs^(T_k - 1 - t) * E_k + P_{k,t}, for t = 0 .. T_k - 1.
            returns[index] = gs ** (len(indices) - 1 - t) * values[k] + owed.get(index, 0.0)
    return _with_reflections(trajectory, returns, penalised)


def returns_per_reward(
    trajectory: Trajectory, scheme: ReturnScheme, gs: float, gt: float, penalised: bool
) -> list[float]:
    """Return the returns with each hand's reward credited at the step that ends the hand (`credit="reward"`).

    G_{k,t} = sum_{t'>=t} gs^(t'-t) r_{k,t'} - B_k + gs^(T_k-1-t) * gt * F_{k+1}, with F_k = D_k + gt * F_{k+1}.
    B_k is the part of R_k that D_k leaves out (R_{k-1} for differential returns, 0 for the others).

    Args:
        gs: Step discount as the scheme uses it.
        gt: Episode discount as the scheme uses it.
        penalised: True if penalties are part of the return.

    Returns:
        G of every step, shape (S,).
    """
    # R_k: (K,). D_k: (K,).
    rewards = [episode.reward for episode in trajectory.episodes]
    paid = scheme.rewards(rewards)
    # F_k = D_k + gt * F_{k+1}: (K + 1,), with F_K = 0.
    following = [0.0] * (len(rewards) + 1)
    for k in reversed(range(len(rewards))):
        following[k] = paid[k] + gt * following[k + 1]
    returns = [0.0] * len(trajectory.steps)
    for k, indices in enumerate(play_steps(trajectory)):
        # B_k = R_k - D_k. Under `final` only the last episode pays: before it, the r_{k,t} and B_k are 0.
        counts = k == len(rewards) - 1 or scheme.discounts
        baseline = rewards[k] - paid[k] if counts else 0.0
        owed = penalties_to_come(trajectory.steps, indices, gs) if penalised else {}
        to_come = 0.0
        for back, index in enumerate(reversed(indices)):
            # Backwards over t, back = T_k - 1 - t: to_come = sum_{t'>=t} gs^(t'-t) r_{k,t'}.
            to_come = (trajectory.steps[index].reward if counts else 0.0) + gs * to_come
            returns[index] = to_come - baseline + gs**back * gt * following[k + 1] + owed.get(index, 0.0)
    return _with_reflections(trajectory, returns, penalised)


def hand_shares(trajectory: Trajectory, scheme: ReturnScheme, gs: float, gt: float) -> list[tuple[float, float]]:
    """Return (c, r) of every step under `credit="reward"`: r is the reward of its own hand, and G contains c * r.

    c is not 1: G discounts r to the hand's end, and a differential return subtracts it again in the next episode.
    Reflections have (0, 0).

    Args:
        gs: Step discount as configured.
        gt: Episode discount as configured.

    Returns:
        One pair per step, length S.
    """
    gs, gt = scheme.discount_rates(gs, gt)
    planned = len(trajectory.episodes)
    shares = [(0.0, 0.0)] * len(trajectory.steps)
    for k, indices in enumerate(play_steps(trajectory)):
        # The D_j are linear in R_k, so a unit reward in episode k alone gives their coefficients. For differential
        # returns these are 1 at j = k and -1 at j = k + 1.
        paid = scheme.rewards([1.0 if index == k else 0.0 for index in range(planned)])
        # sum_{j>k} gt^(j-k) dD_j/dR_k: the share of R_k in the returns of the episodes after it.
        later_weight = sum(gt ** (j - k) * paid[j] for j in range(k + 1, planned))
        counts = k == planned - 1 or scheme.discounts
        reward, ahead = 0.0, 0.0
        for back, index in enumerate(reversed(indices)):
            step = trajectory.steps[index]
            # Backwards over t: at a hand's last step r changes to that hand's reward, and earlier steps of the hand
            # discount it.
            reward, ahead = (step.reward, 1.0) if step.hand_end else (reward, gs * ahead)
            shares[index] = (ahead if counts else 0.0) + gs**back * later_weight, reward
    return shares


def _with_reflections(trajectory: Trajectory, returns: list[float], penalised: bool) -> list[float]:
    # G_{k,0}: (K,), 0 for an episode without play steps.
    first_returns = [returns[indices[0]] if indices else 0.0 for indices in play_steps(trajectory)]
    for index, step in enumerate(trajectory.steps):
        if step.phase == "reflect":
            # A reflection may precede an episode that was never played. Then its return is 0.
            upcoming = first_returns[step.episode] if step.episode < len(first_returns) else 0.0
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
    """Return one return per step (equation 7), shape (S,).

    With gs = 1, sum_k gt^k dR_k weighs R_0, R_1, R_2 by .40/.24/.36 at gt = .6, .10/.09/.81 at .9 and 0/0/1 at 1. The
    paper's .6 is therefore not "only the final episode counts".

    Args:
        returns: A registered scheme, or `module:function`.
        credit: `episode` or `reward`, as in `CreditConfig`.
        gamma_step: gs, per play step.
        gamma_episode: gt, across episodes.
        penalised: True if penalties are part of the return, which the protocol decides.
    """
    scheme = scheme_of(returns)
    gs, gt = scheme.discount_rates(gamma_step, gamma_episode)
    if credit == "reward":
        return returns_per_reward(trajectory, scheme, gs, gt, penalised)
    return returns_from_values(trajectory, episode_values(trajectory, scheme, gs, gt), gs, penalised)
