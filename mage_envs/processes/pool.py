"""`Pool`: worker processes with one function each, one call at a time, with deadlines and limits of memory.

It is the suite's only pool: rollouts, `gym.make_vec(workers=)` and tournaments use it.
"""

from __future__ import annotations

import pickle
import time
import weakref
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from typing import Any

from gymnasium.vector.utils import CloudpickleWrapper

from mage_envs.loading.options import check_positive
from mage_envs.processes.call_outcomes import HANG, CallError, WorkerFailure, WorkerLost
from mage_envs.processes.watchdog import SLOW_AFTER_S
from mage_envs.processes.worker import GRACE, Worker

START = 600.0
"""Timeout in seconds for the start of a process, which includes its imports."""
_STARTED_BY_SCRIPT = "a script that makes workers must do so below `if __name__ == '__main__':`"


class Pool:
    """Worker processes, each with its own function from `make`.

    If a worker dies, hangs or reaches its memory limit, the outcome of its current call is `WorkerLost`. `revive`
    restarts the worker. Workers import the modules from `--import`, too. All workers end with `close`, with
    the pool, and with this process, even if it is killed. Processes that a worker started end with it.
    """

    def __init__(
        self,
        make: Callable[[], Callable[..., Any]],
        count: int,
        *,
        memory_gb: float = 0.0,
        slow_after: float = SLOW_AFTER_S,
        on_slow: Callable[[int, float], None] | None = None,
    ) -> None:
        """Create a pool. `revive` starts its workers.

        Args:
            make: Function that each worker calls once. It returns the function that answers the worker's calls.
            memory_gb: Limit of each process's address space in GiB (0: no limit).
            slow_after: Seconds after which a call is slow.
            on_slow: Function of (worker, seconds), called once per slow call.

        Raises:
            TypeError: If `make` cannot be pickled.
            ValueError: If `count` or `memory_gb` is invalid.
        """
        check_positive("workers", count)
        if not memory_gb >= 0:
            raise ValueError(f"memory_gb={memory_gb!r} must be a number of GiB, 0 for no limit.")
        try:
            sent = pickle.dumps(CloudpickleWrapper(make))
        except Exception as error:
            # Pickling runs code of the pickled objects, which may raise anything.
            raise TypeError(f"The workers' function cannot be pickled: {error}") from error
        self._slow_after, self._on_slow = slow_after, on_slow
        self._workers = [Worker(sent, memory_gb) for _ in range(count)]
        # A finalizer and not `__del__`: it also runs when the interpreter exits.
        self._stop = weakref.finalize(self, _end_all, self._workers)

    def __len__(self) -> int:
        return len(self._workers)

    @property
    def processes(self) -> tuple[int | None, ...]:
        """Return the process ids of the workers, with None for a dead worker."""
        return tuple(worker.process.pid if worker.alive else None for worker in self._workers)

    def alive(self, worker: int) -> bool:
        """Return True if the worker was started and has not failed since."""
        return self._workers[worker].alive

    def revive(self, worker: int) -> int:
        """Start the worker if it is dead. Returns its number of starts, which identifies the current process."""
        process = self._workers[worker]
        if process.is_dead():
            process.end()
            process.start()
        return process.lives

    def call(self, worker: int, *arguments: Any, deadline: float = 0.0) -> None:
        """Start a call. `next_outcome` returns its outcome.

        Args:
            worker: Index of a living worker without a running call.
            *arguments: Arguments of the worker's function.
            deadline: Timeout of the call in seconds (0: no limit).
        """
        self._workers[worker].call(arguments, deadline)

    def next_outcome(self) -> tuple[int, Any]:
        """Wait for a call to end. Returns the worker and its result, `CallError` or `WorkerLost`.

        Raises RuntimeError if no call is running.
        """
        while (outcome := self.outcome_within(float("inf"))) is None:
            pass
        return outcome

    def outcome_within(self, timeout: float) -> tuple[int, Any] | None:
        """Return the next outcome like `next_outcome`, or None after `timeout` seconds."""
        until = time.monotonic() + timeout
        while busy := [index for index, worker in enumerate(self._workers) if worker.called is not None]:
            ready = wait([end for index in busy for end in self._workers[index].ends()], self._patience(busy, until))
            reached = {index for index in busy if any(end in ready for end in self._workers[index].ends())}
            for index in busy:
                worker = self._workers[index]
                if index in reached:
                    over, outcome = worker.take()
                    if over:
                        return index, outcome
                elif worker.called is not None and self._remaining_seconds(worker) <= 0:
                    return index, worker.handle_hang() if worker.is_ready else self._never_started(worker)
            self._tell_slow(busy)
            if time.monotonic() >= until:
                return None
        raise RuntimeError("No call is running.")

    def outcomes(self, workers: Sequence[int]) -> list[Any]:
        """Return the outcome of each of these workers' calls. No other call may be running."""
        outcomes: dict[int, Any] = {}
        while len(outcomes) < len(workers):
            index, outcome = self.next_outcome()
            outcomes[index] = outcome
        return [outcomes[index] for index in workers]

    def close(self) -> None:
        """End the workers: busy workers at once, idle workers within some seconds."""
        self._stop()

    def _remaining_seconds(self, worker: Worker) -> float:
        """Return the seconds until the deadline of the worker's call, or of its start."""
        limit = worker.deadline if worker.is_ready else START
        return float("inf") if not limit or worker.called is None else worker.called + limit - time.monotonic()

    def _patience(self, busy: Sequence[int], until: float) -> float | None:
        """Return the seconds until `until`, the next deadline or the next slow call, or None if there is no limit."""
        current_time = time.monotonic()
        seconds = until - current_time
        for index in busy:
            worker = self._workers[index]
            seconds = min(seconds, self._remaining_seconds(worker))
            if not worker.reported_slow and self._on_slow is not None and worker.called is not None:
                seconds = min(seconds, worker.called + self._slow_after - current_time)
        return None if seconds == float("inf") else max(seconds, 0.0)

    def _tell_slow(self, busy: Sequence[int]) -> None:
        """Call `on_slow` for each call that has become slow."""
        for index in busy:
            worker = self._workers[index]
            seconds = 0.0 if worker.called is None else time.monotonic() - worker.called
            if self._on_slow is not None and not worker.reported_slow and seconds >= self._slow_after:
                worker.reported_slow = True
                self._on_slow(index, seconds)

    @staticmethod
    def _never_started(worker: Worker) -> WorkerLost:
        return WorkerLost(HANG, f"its process did not start within {START:g} s", worker.end())


def check_started(outcome: Any, worker_name: str) -> Any:
    """Return the first outcome of a worker. Raises its exception, or WorkerFailure if the worker was lost."""
    if isinstance(outcome, CallError):
        raise outcome.error
    if isinstance(outcome, WorkerLost):
        raise WorkerFailure(f"{worker_name} {outcome.reason} before it could be called; {_STARTED_BY_SCRIPT}.")
    return outcome


def _end_all(workers: Sequence[Worker]) -> None:
    """End all workers: give idle ones time to close their environments, and kill the others."""
    living = [worker for worker in workers if worker.alive]
    idle = [worker for worker in living if worker.called is None and worker.is_ready]
    # Close all pipes first, so that the idle workers end in parallel and share one grace period.
    for worker in idle:
        worker.hang_up()
    until = time.monotonic() + GRACE
    for worker in living:
        if worker in idle:
            worker.process.join(max(until - time.monotonic(), 0.0))
        worker.end()
