"""MAGE training: rollouts, returns and advantages (without torch), and the TRL trainer.

Each public name is imported on first use.
"""

if __name__ == "trainer":
    # Imported from a clone by the name of its folder.
    from mage_envs.loading.folders import use_own_name

    use_own_name(__name__)


from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mage_envs.trainer.config.mage_config import MAGEConfig
    from mage_envs.trainer.method.advantages import CreditConfig, compute_advantages
    from mage_envs.trainer.method.components import (
        register_advantage,
        register_kl,
        register_policy_loss,
        register_returns,
    )
    from mage_envs.trainer.method.returns import differential_rewards, step_returns
    from mage_envs.trainer.trl.mage_trainer import MAGETrainer
    from mage_envs.wrappers.rollout.loop import RolloutClock, RolloutSpec, collect
    from mage_envs.wrappers.rollout.trajectory import EpisodeResult, Step, Trajectory

_MODULES = {
    "mage_envs.trainer.method.advantages": ("CreditConfig", "compute_advantages"),
    "mage_envs.trainer.method.components": (
        "register_advantage",
        "register_kl",
        "register_policy_loss",
        "register_returns",
    ),
    "mage_envs.trainer.config.mage_config": ("MAGEConfig",),
    "mage_envs.trainer.trl.mage_trainer": ("MAGETrainer",),
    "mage_envs.trainer.method.returns": ("differential_rewards", "step_returns"),
    "mage_envs.wrappers.rollout.loop": ("RolloutClock", "RolloutSpec", "collect"),
    "mage_envs.wrappers.rollout.trajectory": ("EpisodeResult", "Step", "Trajectory"),
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
    raise AttributeError(f"module 'mage_envs.trainer' has no attribute {name!r}")
