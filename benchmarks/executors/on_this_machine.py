"""Executors of this machine: jobs in this process, or in worker processes."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

from mage_envs.benchmarks.executors.jobs import ORDINARY, Conditions, Executor, MakeWork
from mage_envs.loading.options import check_positive
from mage_envs.processes.call_outcomes import HANG, WorkerLost, attempt
from mage_envs.processes.watchdog import Watchdog

if TYPE_CHECKING:
    from mage_envs.processes.pool import Pool

PIECES = 4
"""Jobs per process. Several small jobs per process balance the load better than one large job."""


class Local(Executor):
    """Executor that runs one job after the other in this process. It does not enforce the timeout of a call."""

    # Other processes would not help, so the work stays in one piece.
    pieces = 1

    def run(
        self, make: MakeWork, jobs: Sequence[Any], conditions: Conditions = ORDINARY
    ) -> Generator[tuple[int, Any], None, None]:
        """Run jobs as described in `Executor.run`."""
        # Imported here, because a command that plays in this process makes a `Local`, but runs no job.
        from mage_envs.processes.worker_loop import Closes

        playing = 0

        def tell(label: str, seconds: float) -> None:
            if conditions.tell is not None:
                conditions.tell(playing, seconds)

        with Watchdog(tell, conditions.slow_after) as watch:
            work: Any = make()
            try:
                for playing, job in enumerate(jobs):
                    # None means that the job is not finished; each call is watched separately.
                    while (outcome := watch.call(attempt, work, job, deadline=0.0, describe=str)) is None:
                        pass
                    yield playing, outcome
            finally:
                if isinstance(work, Closes):
                    work.close()


class Processes(Executor):
    """Executor that assigns jobs one by one to `count` worker processes. The workers end when the run ends.

    A script that uses this executor needs the guard `if __name__ == "__main__":`.
    """

    def __init__(self, count: int) -> None:
        check_positive("processes", count)
        self.count = count
        self.pieces = PIECES * count

    def run(
        self, make: MakeWork, jobs: Sequence[Any], conditions: Conditions = ORDINARY
    ) -> Generator[tuple[int, Any], None, None]:
        """Run jobs as described in `Executor.run`."""
        # Imported here, because only this executor starts processes.
        from mage_envs.processes.pool import Pool

        todo = deque(enumerate(jobs))
        lost = [0] * len(jobs)
        doing: dict[int, tuple[int, Any]] = {}

        def tell_slow(worker: int, seconds: float) -> None:
            if conditions.tell is not None:
                conditions.tell(doing[worker][0], seconds)

        # A worker without a job would only import the suite and end.
        count = min(self.count, len(jobs))
        if not count:
            return
        with contextlib.closing(Pool(make, count, slow_after=conditions.slow_after, on_slow=tell_slow)) as pool:
            for worker in range(count):
                _hand_out(pool, worker, todo, doing, conditions.deadline)
            while doing:
                worker, outcome = pool.next_outcome()
                if outcome is None:
                    # The job is not finished. Each part has the whole timeout again.
                    pool.call(worker, doing[worker][1], deadline=conditions.deadline)
                    continue
                index, job = doing.pop(worker)
                is_retried = (
                    isinstance(outcome, WorkerLost) and outcome.kind != HANG and lost[index] < conditions.retries
                )
                if is_retried:
                    lost[index] += 1
                    # Last in the queue, because the other jobs probably do not kill their worker.
                    todo.append((index, job))
                # The next job starts before the result is yielded: the caller may take long to store it.
                _hand_out(pool, worker, todo, doing, conditions.deadline)
                if not is_retried:
                    yield index, outcome


def _hand_out(
    pool: Pool, worker: int, todo: deque[tuple[int, Any]], doing: dict[int, tuple[int, Any]], deadline: float
) -> None:
    if todo:
        doing[worker] = todo.popleft()
        # A new worker replaces the one that the last job may have killed.
        pool.revive(worker)
        pool.call(worker, doing[worker][1], deadline=deadline)
