"""Vector environments: many environments of one id behind one `step`, in this process or in several."""

from mage_envs.processes.call_outcomes import WorkerFailure
from mage_envs.vector.text_vector import LoopVectorEnv, TextVectorEnv
from mage_envs.vector.workers import WorkerVectorEnv

__all__ = ["LoopVectorEnv", "TextVectorEnv", "WorkerFailure", "WorkerVectorEnv"]
