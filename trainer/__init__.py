"""MAGE training: rollouts, returns and advantages (no torch)."""

from trainer.advantages import CreditConfig, weigh
from trainer.returns import differential_rewards, step_returns
from trainer.rollout import RolloutClock, RolloutSpec, collect
from trainer.trajectory import EpisodeResult, Step, Trajectory

__all__ = [
    "CreditConfig",
    "EpisodeResult",
    "RolloutClock",
    "RolloutSpec",
    "Step",
    "Trajectory",
    "collect",
    "differential_rewards",
    "step_returns",
    "weigh",
]
