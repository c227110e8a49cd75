"""Worker processes and deadlines: the only way to call code that may hang or die."""

from typing import TYPE_CHECKING, Any

from mage_envs.processes.call_outcomes import CallError, WorkerFailure, WorkerLost, attempt
from mage_envs.processes.watchdog import CALL_TIMEOUT_S, SLOW_AFTER_S, CallTimeout, Watchdog

if TYPE_CHECKING:
    from mage_envs.processes.pool import Pool

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


def __getattr__(name: str) -> Any:
    # Lazy, because most runs need the deadlines but start no process.
    if name == "Pool":
        from mage_envs.processes.pool import Pool

        return Pool
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
