"""MAGE training: rollouts, returns and advantages (no torch), and the TRL trainer, loaded when asked for."""

# ruff: noqa: E402  (Ctrl-C is caught before the imports that take time)
import mage_commands

mage_commands.starts(__name__)

from importlib import import_module
from typing import TYPE_CHECKING, Any

from trainer.advantages import CreditConfig, weigh
from trainer.returns import differential_rewards, step_returns
from trainer.rollout import RolloutClock, RolloutSpec, collect
from trainer.trajectory import EpisodeResult, Step, Trajectory

if TYPE_CHECKING:
    from trainer.config import MAGEConfig
    from trainer.mage_trainer import MAGETrainer

_LAZY = {"MAGEConfig": "trainer.config", "MAGETrainer": "trainer.mage_trainer"}

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
    "step_returns",
    "weigh",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return import_module(_LAZY[name]).__dict__[name]
    raise AttributeError(f"module 'trainer' has no attribute {name!r}")
