"""The task set of `vf-eval mage-envs-vf`, which imports a top-level module of this name."""

from wrappers.adapters.verifiers import MageEnv, MageTaskset

__all__ = ["MageEnv", "MageTaskset"]
