"""Worker processes and deadlines: the only way to call code that may hang or die."""

from mage_envs.processes.call_outcomes import Lost, Raised, WorkerFailure, attempt
from mage_envs.processes.pool import Pool
from mage_envs.processes.watchdog import DEADLINE, SLOW, Late, Watch

__all__ = ["DEADLINE", "SLOW", "Late", "Lost", "Pool", "Raised", "Watch", "WorkerFailure", "attempt"]
