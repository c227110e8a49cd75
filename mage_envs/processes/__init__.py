"""Worker processes and deadlines: the one way in which code that may hang or die is called."""

from mage_envs.processes.outcomes import Lost, Raised, WorkerFailure, attempt
from mage_envs.processes.pool import Pool
from mage_envs.processes.watch import DEADLINE, SLOW, Late, Watch

__all__ = ["DEADLINE", "SLOW", "Late", "Lost", "Pool", "Raised", "Watch", "WorkerFailure", "attempt"]
