"""Worker processes and deadlines: the only way to call code that may hang or die."""

from mage_envs.processes.call_outcomes import CallError, WorkerFailure, WorkerLost, attempt
from mage_envs.processes.pool import Pool
from mage_envs.processes.watchdog import CALL_TIMEOUT_S, SLOW_AFTER_S, CallTimeout, Watchdog

__all__ = [
    "CALL_TIMEOUT_S",
    "SLOW_AFTER_S",
    "CallError",
    "CallTimeout",
    "Pool",
    "Watchdog",
    "WorkerFailure",
    "WorkerLost",
    "attempt",
]
