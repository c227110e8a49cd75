"""Interface of executors: jobs, conditions of a run, and helpers to read the outcomes in order."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from mage_envs.exceptions import reason_of
from mage_envs.processes.call_outcomes import CallError, WorkerFailure, WorkerLost
from mage_envs.processes.watchdog import SLOW_AFTER_S

T = TypeVar("T")
Work = Callable[[Any], Any]
"""Function that runs one job and returns its result, or None if it must be called again to continue the job."""
MakeWork = Callable[[], Work]
"""Function that makes the work, called once per process. It must be picklable."""
RETRIES = 2
"""Default number of restarts of a job if its worker is lost."""


@dataclass(frozen=True)
class Conditions:
    """Limits of a run, and the callback for slow jobs."""

    retries: int = RETRIES
    """Maximum number of restarts of a job if its worker dies. A job that hangs is not restarted."""
    deadline: float = 0.0
    """Timeout per call in seconds, after which the process is killed if it is on this machine; 0 disables it."""
    slow_after: float = SLOW_AFTER_S
    """Duration of a call in seconds after which `tell` is called once."""
    tell: Callable[[int, float], None] | None = None
    """Callback for a slow call: `tell(index of the job, seconds so far)`."""


ORDINARY = Conditions()


class Executor(ABC):
    """Runner of jobs. It yields exactly one outcome per job, in any order."""

    pieces: int
    """Recommended number of jobs if the work can be divided freely."""

    @abstractmethod
    def run(
        self, make: MakeWork, jobs: Sequence[Any], conditions: Conditions = ORDINARY
    ) -> Generator[tuple[int, Any], None, None]:
        """Run jobs and yield pairs (index of the job, outcome). Closing the generator ends the jobs that still run.

        Args:
            make: Function that makes the work, called once per process.
            jobs: Arguments of the work, one per job.
            conditions: Retries, timeouts and the callback for slow jobs.

        Returns:
            Generator of outcomes: the result, `CallError` if the work raised, or `WorkerLost` if the worker was lost.

        Raises:
            RuntimeError: If no worker is available. The message is one line.
        """


def unwrap(outcome: Any, label: str) -> Any:
    """Return the result of an outcome, or raise its exception. `label` names the job in a WorkerFailure."""
    if isinstance(outcome, CallError):
        # Other kinds, such as KeyboardInterrupt, would stop this process although they were raised in a worker.
        error = (
            outcome.error
            if isinstance(outcome.error, Exception | SystemExit)
            else RuntimeError(reason_of(outcome.error))
        )
        error.add_note(outcome.traceback)
        raise error
    if isinstance(outcome, WorkerLost):
        raise WorkerFailure(f"{label}: {outcome.reason}")
    return outcome


def run_in_order(
    executor: Executor, function: Callable[..., T], fixed: Sequence[Any], jobs: Sequence[Any]
) -> Iterator[T]:
    """Yield `function(*fixed, job)` for each job, in the order of the jobs.

    Args:
        executor: Executor that runs the jobs.
        function: Function to call. It must be picklable, as its arguments must be.
        fixed: Leading arguments, equal for all jobs.
        jobs: Last argument, one per job.

    Raises:
        WorkerFailure: If a job's worker was lost and the retries are used up.
    """
    # The outer partial is `make`: a call of it returns partial(function, *fixed), which is the work.
    return results_in_order(executor, partial(partial, function, *fixed), jobs)


def results_in_order(executor: Executor, make: MakeWork, jobs: Sequence[Any]) -> Iterator[Any]:
    """Yield the result of each job in the order of the jobs, as soon as all earlier results are available.

    Args:
        executor: Executor that runs the jobs.
        make: Function that makes the work, called once per process.
        jobs: Arguments of the work, one per job.

    Raises:
        WorkerFailure: If a job's worker was lost and the retries are used up. Exceptions of the work are raised as is.
    """
    early: dict[int, Any] = {}
    # Closed explicitly: an exception below would otherwise leave workers running until garbage collection.
    with contextlib.closing(executor.run(make, jobs)) as running:
        following = 0
        for index, outcome in running:
            early[index] = unwrap(outcome, f"job {jobs[index]!r}")
            while following in early:
                yield early.pop(following)
                following += 1
