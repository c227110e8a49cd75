"""`Pool`: worker processes that hold one function each, called one call at a time, with deadlines, deaths and limits.

The one pool of the suite: `trainer.rollout.collect`, `gym.make_vec(workers=)` and tournaments play in it.
"""

from __future__ import annotations

import pickle
import time
import weakref
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from typing import Any

from gymnasium.vector.utils import CloudpickleWrapper

from mage_envs.checks import check_positive
from mage_envs.processes.outcomes import HANG, Lost, Raised, WorkerFailure
from mage_envs.processes.watch import SLOW
from mage_envs.processes.worker import GRACE, Worker

START = 600.0
"""Seconds that a process has to start, in which it imports what it needs."""
_STARTED_BY_SCRIPT = "a script that makes workers must do so below `if __name__ == '__main__':`"


class Pool:
    """`count` processes; each makes its own function with `make` and answers calls of it.

    A worker that dies, hangs or breaks its limit costs the call that it was answering, which gets `Lost`; `revive`
    starts it anew. Modules that were named by `--import` are imported there, too. All processes end with `close`, with
    the pool, with this process however it ends, and take along what they started.
    """

    def __init__(
        self,
        make: Callable[[], Callable[..., Any]],
        count: int,
        *,
        memory_gb: float = 0.0,
        slow_after: float = SLOW,
        on_slow: Callable[[int, float], None] | None = None,
    ) -> None:
        """`memory_gb`: address space that each process may have, in GiB; 0: no limit. `on_slow(worker, seconds)` is
        called once in a call that takes longer than `slow_after` seconds. Raises TypeError where `make` cannot be sent.
        """
        check_positive("workers", count)
        if not memory_gb >= 0:
            raise ValueError(f"memory_gb={memory_gb!r} must be a number of GiB, 0 for no limit.")
        try:
            sent = pickle.dumps(CloudpickleWrapper(make))
        except Exception as error:  # pickling runs the code of whatever is sent
            raise TypeError(f"What workers need cannot be sent to them: {error}") from error
        self._slow_after, self._on_slow = slow_after, on_slow
        self._workers = [Worker(sent, memory_gb) for _ in range(count)]
        self._stop = weakref.finalize(self, _end_all, self._workers)

    def __len__(self) -> int:
        return len(self._workers)

    @property
    def processes(self) -> tuple[int | None, ...]:
        """Process ids of the workers, None for one that is dead."""
        return tuple(worker.process.pid if worker.alive else None for worker in self._workers)

    def alive(self, worker: int) -> bool:
        """Whether that worker was started and did not fail since."""
        return self._workers[worker].alive

    def revive(self, worker: int) -> int:
        """Starts that worker if it is dead; returns how often it was started, which tells one life from another."""
        found = self._workers[worker]
        if found.is_dead():
            found.end()
            found.start()
        return found.lives

    def call(self, worker: int, *arguments: Any, deadline: float = 0.0) -> None:
        """Starts a call; `next_outcome` has its outcome. `deadline`: seconds that it has; 0: for ever."""
        self._workers[worker].call(arguments, deadline)

    def next_outcome(self) -> tuple[int, Any]:
        """Waits for a call to end: (worker, its result, `Raised` or `Lost`). RuntimeError where none is under way."""
        while (found := self.outcome_within(float("inf"))) is None:
            pass
        return found

    def outcome_within(self, timeout: float) -> tuple[int, Any] | None:
        """As `next_outcome`; None after `timeout` seconds."""
        until = time.monotonic() + timeout
        while busy := [place for place, worker in enumerate(self._workers) if worker.called is not None]:
            ready = wait([end for place in busy for end in self._workers[place].ends()], self._patience(busy, until))
            reached = {place for place in busy if any(end in ready for end in self._workers[place].ends())}
            for place in busy:
                worker = self._workers[place]
                if place in reached:
                    over, outcome = worker.take()
                    if over:
                        return place, outcome
                elif worker.called is not None and self._left(worker) <= 0:
                    return place, worker.hung() if worker.is_ready else self._never_started(worker)
            self._tell_slow(busy)
            if time.monotonic() >= until:
                return None
        raise RuntimeError("No call is under way.")

    def outcomes(self, workers: Sequence[int]) -> list[Any]:
        """The outcome of each of these workers' calls; no other call may be under way."""
        found: dict[int, Any] = {}
        while len(found) < len(workers):
            place, outcome = self.next_outcome()
            found[place] = outcome
        return [found[place] for place in workers]

    def close(self) -> None:
        """Ends the workers: at once those that are busy, and the others within some seconds."""
        self._stop()

    def _left(self, worker: Worker) -> float:
        limit = worker.deadline if worker.is_ready else START
        return float("inf") if not limit or worker.called is None else worker.called + limit - time.monotonic()

    def _patience(self, busy: Sequence[int], until: float) -> float | None:
        """Seconds until then, until somebody's deadline, or until somebody is to be told that a call is slow."""
        now = time.monotonic()
        least = until - now
        for place in busy:
            worker = self._workers[place]
            least = min(least, self._left(worker))
            if not worker.told and self._on_slow is not None and worker.called is not None:
                least = min(least, worker.called + self._slow_after - now)
        return None if least == float("inf") else max(least, 0.0)

    def _tell_slow(self, busy: Sequence[int]) -> None:
        for place in busy:
            worker = self._workers[place]
            seconds = 0.0 if worker.called is None else time.monotonic() - worker.called
            if self._on_slow is not None and not worker.told and seconds >= self._slow_after:
                worker.told = True
                self._on_slow(place, seconds)

    @staticmethod
    def _never_started(worker: Worker) -> Lost:
        return Lost(HANG, f"its process did not start within {START:g} s", worker.end())


def check_started(outcome: Any, who: str) -> Any:
    """The first outcome of a worker; raises what it raised, and WorkerFailure where it did not come that far."""
    if isinstance(outcome, Raised):
        raise outcome.error
    if isinstance(outcome, Lost):
        raise WorkerFailure(f"{who} {outcome.reason} before it could be called; {_STARTED_BY_SCRIPT}.")
    return outcome


def _end_all(workers: Sequence[Worker]) -> None:
    living = [worker for worker in workers if worker.alive]
    idle = [worker for worker in living if worker.called is None and worker.is_ready]
    for worker in idle:
        worker.hang_up()
    until = time.monotonic() + GRACE
    for worker in living:
        if worker in idle:
            worker.process.join(max(until - time.monotonic(), 0.0))
        worker.end()
