"""Work in this process, and in worker processes of this machine."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Generator, Sequence
from typing import Any

from benchmarks.executors.jobs import ORDINARY, Conditions, MakeWork
from mage_envs.checks import check_positive
from mage_envs.processes import Lost, Pool, Watch, attempt
from mage_envs.processes.outcomes import HANG
from mage_envs.processes.serving import Closes

PIECES = 4
"""Jobs for each process, so that none has much more to do than another."""


class Local:
    """One job after the other, in this process. A call is not stopped at its deadline."""

    pieces = 1

    def run(
        self, make: MakeWork, jobs: Sequence[Any], conditions: Conditions = ORDINARY
    ) -> Generator[tuple[int, Any], None, None]:
        """See `Executor`."""
        playing = 0

        def tell(who: str, seconds: float) -> None:
            if conditions.tell is not None:
                conditions.tell(playing, seconds)

        with Watch(tell, conditions.slow_after) as watch:
            work: Any = make()
            try:
                for playing, job in enumerate(jobs):
                    while (outcome := watch.call(attempt, work, job, deadline=0.0, who=str)) is None:
                        pass
                    yield playing, outcome
            finally:
                if isinstance(work, Closes):
                    work.close()


class Processes:
    """Jobs handed out one by one to `count` processes, which end with the run, however it ends.

    A script that runs this needs the usual `if __name__ == "__main__":`.
    """

    def __init__(self, count: int) -> None:
        check_positive("processes", count)
        self.count = count
        self.pieces = PIECES * count

    def run(
        self, make: MakeWork, jobs: Sequence[Any], conditions: Conditions = ORDINARY
    ) -> Generator[tuple[int, Any], None, None]:
        """See `Executor`."""
        todo = deque(enumerate(jobs))
        lost = [0] * len(jobs)
        doing: dict[int, tuple[int, Any]] = {}

        def tell_slow(worker: int, seconds: float) -> None:
            if conditions.tell is not None:
                conditions.tell(doing[worker][0], seconds)

        count = min(self.count, len(jobs))
        if not count:
            return
        with contextlib.closing(Pool(make, count, slow_after=conditions.slow_after, on_slow=tell_slow)) as pool:
            for worker in range(count):
                _hand_out(pool, worker, todo, doing, conditions.deadline)
            while doing:
                worker, outcome = pool.next_outcome()
                if outcome is None:
                    pool.call(worker, doing[worker][1], deadline=conditions.deadline)
                    continue
                place, job = doing.pop(worker)
                again = isinstance(outcome, Lost) and outcome.kind != HANG and lost[place] < conditions.retries
                if again:
                    lost[place] += 1
                    todo.append((place, job))
                _hand_out(pool, worker, todo, doing, conditions.deadline)
                if not again:
                    yield place, outcome


def _hand_out(
    pool: Pool, worker: int, todo: deque[tuple[int, Any]], doing: dict[int, tuple[int, Any]], deadline: float
) -> None:
    if todo:
        doing[worker] = todo.popleft()
        pool.revive(worker)
        pool.call(worker, doing[worker][1], deadline=deadline)
