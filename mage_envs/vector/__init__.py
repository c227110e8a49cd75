"""Vector environments: many environments of one id behind one `step`, in this process or in several."""

from mage_envs.vector.sokoban_vector import SokobanVectorEnv
from mage_envs.vector.table_vector import TableVectorEnv
from mage_envs.vector.text_vector import LoopVectorEnv, TextVectorEnv
from mage_envs.vector.worker import WorkerFailure
from mage_envs.vector.workers import WorkerVectorEnv

__all__ = [
    "LoopVectorEnv",
    "SokobanVectorEnv",
    "TableVectorEnv",
    "TextVectorEnv",
    "WorkerFailure",
    "WorkerVectorEnv",
]
