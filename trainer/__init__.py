"""MAGE training: rollouts, returns and advantages (without torch), and the TRL trainer.

Each public name is imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer.advantages import CreditConfig, weigh
    from trainer.components import register_advantage, register_kl, register_policy_loss, register_returns
    from trainer.config import MAGEConfig
    from trainer.mage_trainer import MAGETrainer
    from trainer.returns import differential_rewards, step_returns
    from trainer.rollout import RolloutClock, RolloutSpec, collect
    from trainer.trajectory import EpisodeResult, Step, Trajectory

_MODULES = {
    "trainer.advantages": ("CreditConfig", "weigh"),
    "trainer.components": ("register_advantage", "register_kl", "register_policy_loss", "register_returns"),
    "trainer.config": ("MAGEConfig",),
    "trainer.mage_trainer": ("MAGETrainer",),
    "trainer.returns": ("differential_rewards", "step_returns"),
    "trainer.rollout": ("RolloutClock", "RolloutSpec", "collect"),
    "trainer.trajectory": ("EpisodeResult", "Step", "Trajectory"),
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
    "differential_rewards",
    "register_advantage",
    "register_kl",
    "register_policy_loss",
    "register_returns",
    "step_returns",
    "weigh",
]


def __getattr__(name: str) -> Any:
    # Lazy imports: a user of the rollouts needs neither torch nor TRL, which take seconds to load.
    for module, names in _MODULES.items():
        if name in names:
            return import_module(module).__dict__[name]
    raise AttributeError(f"module 'trainer' has no attribute {name!r}")
