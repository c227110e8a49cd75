"""MAGE training: rollouts, returns and advantages (without torch), and the TRL trainer.

Each public name is imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer.config.mage_config import MAGEConfig
    from trainer.method.advantages import CreditConfig, compute_advantages
    from trainer.method.components import register_advantage, register_kl, register_policy_loss, register_returns
    from trainer.method.returns import differential_rewards, step_returns
    from trainer.method.trajectory import EpisodeResult, Step, Trajectory
    from trainer.rollout.rollout import RolloutClock, RolloutSpec, collect
    from trainer.trl.mage_trainer import MAGETrainer

_MODULES = {
    "trainer.method.advantages": ("CreditConfig", "compute_advantages"),
    "trainer.method.components": ("register_advantage", "register_kl", "register_policy_loss", "register_returns"),
    "trainer.config.mage_config": ("MAGEConfig",),
    "trainer.trl.mage_trainer": ("MAGETrainer",),
    "trainer.method.returns": ("differential_rewards", "step_returns"),
    "trainer.rollout.rollout": ("RolloutClock", "RolloutSpec", "collect"),
    "trainer.method.trajectory": ("EpisodeResult", "Step", "Trajectory"),
}
"""Public names by the module that defines them."""

__all__ = [
    "CreditConfig",
    "EpisodeResult",
    "MAGEConfig",
    "MAGETrainer",
    "RolloutClock",
    "RolloutSpec",
    "Step",
    "Trajectory",
    "collect",
    "compute_advantages",
    "differential_rewards",
    "register_advantage",
    "register_kl",
    "register_policy_loss",
    "register_returns",
    "step_returns",
]


def __getattr__(name: str) -> Any:
    # Lazy imports: a user of the rollouts needs neither torch nor TRL, which take seconds to load.
    for module, names in _MODULES.items():
        if name in names:
            return import_module(module).__dict__[name]
    raise AttributeError(f"module 'trainer' has no attribute {name!r}")
