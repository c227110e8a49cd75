"""`WorkerVectorEnv`: environments distributed over processes, for slow environments or slow opponents.

Results equal those of `LoopVectorEnv` in one process to the bit. If a worker dies or hangs, only the episodes of its
environments are lost. They end as truncated with the reason in `info["failure"]`, and their next reset restarts the
worker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode

from mage_envs.loading.options import check_positive, check_seconds
from mage_envs.processes.call_outcomes import CallError, WorkerFailure, WorkerLost
from mage_envs.processes.pool import Pool, check_started
from mage_envs.processes.watchdog import CALL_TIMEOUT_S
from mage_envs.random.streams import seed_of
from mage_envs.vector.text_vector import Batch, Infos, Slots, SlotStep, Texts, TextVectorEnv, batch_infos, or_none


class _Share:
    """The function of a worker, with its share of the environments. The first call creates them."""

    def __init__(self, make_env: Callable[[], gym.Env[str, str]], same_step: bool) -> None:
        self._make_env, self._same_step = make_env, same_step
        self._slots = Slots((), same_step)

    def __call__(self, request: str, *arguments: Any) -> Any:
        # Not in `__init__`: all workers run the same code there, and only a call can state the size of a share.
        if request == "make":
            self._slots = Slots([self._make_env() for _ in range(arguments[0])], self._same_step)
            return self._slots.envs[0].metadata
        return self._slots.begin(*arguments) if request == "begin" else self._slots.advance(*arguments)

    def close(self) -> None:
        for env in self._slots.envs:
            env.close()


class WorkerVectorEnv(TextVectorEnv):
    """Environments of any id in `workers` processes with equal shares."""

    def __init__(
        self,
        make_env: Callable[[], gym.Env[str, str]],
        num_envs: int,
        *,
        workers: int,
        deadline: float = CALL_TIMEOUT_S,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
    ) -> None:
        """Create the environments and their workers.

        Args:
            make_env: Function that creates one environment. Workers receive it pickled.
            workers: Number of processes, `num_envs` at most.
            deadline: Timeout in seconds for a step or reset of all environments of a worker (0: no limit).
            autoreset_mode: Gymnasium's autoreset mode.

        Raises:
            WorkerFailure: If a worker cannot be started.
        """
        super().__init__(num_envs, autoreset_mode)
        check_positive("workers", workers)
        if workers > num_envs:
            raise ValueError(f"workers={workers} must be at most num_envs={num_envs}. Use fewer workers.")
        check_seconds("deadline", deadline)
        self._deadline = deadline
        self._seeds: list[int | None] = [None] * num_envs
        self._losses = [0] * num_envs
        """Number of lost environments per row since it was seeded."""
        self._lost = [False] * num_envs
        """True for each row whose environment was lost and not reset since."""
        bounds = [num_envs * index // workers for index in range(workers + 1)]
        self._rows = [range(start, end) for start, end in pairwise(bounds)]
        """Rows of each worker, by worker."""
        same_step = self.autoreset_mode is AutoresetMode.SAME_STEP
        self._pool = Pool(partial(_Share, make_env, same_step), workers)
        try:
            self._describe(self._start(range(workers))[0], None)
        except BaseException:
            self.close()
            raise

    @property
    def processes(self) -> tuple[int | None, ...]:
        """Return the process ids of the workers, with None for a dead worker."""
        return self._pool.processes

    def close_extras(self, **kwargs: Any) -> None:
        """End the workers and wait for them."""
        self._pool.close()

    def _start(self, workers: Sequence[int]) -> list[Any]:
        """Start dead workers and create their environments. Raises the worker's exception, or WorkerFailure."""
        # All calls are sent before the first outcome is awaited, so that the workers start in parallel.
        for worker in workers:
            self._pool.revive(worker)
            self._pool.call(worker, "make", len(self._rows[worker]))
        outcomes = self._pool.outcomes(workers)
        return [check_started(outcome, self._label(worker)) for worker, outcome in zip(workers, outcomes, strict=True)]

    def _label(self, worker: int) -> str:
        rows = self._rows[worker]
        return f"The worker of environments {rows.start} to {rows.stop - 1}:"

    def _begin(
        self, rows: Sequence[int], seeds: Sequence[int | None], options: dict[str, Any] | None
    ) -> tuple[Texts, Infos]:
        starts = self._begin_rows(dict(zip(rows, seeds, strict=True)), options)
        infos = ((row, starts[row][1]) for row in rows)
        return [starts[row][0] for row in rows], batch_infos(self.num_envs, infos)

    def _begin_rows(
        self, seeds: dict[int, int | None], options: dict[str, Any] | None
    ) -> dict[int, tuple[str, dict[str, Any]]]:
        """Reset the rows in `seeds`. Raises WorkerFailure if a worker fails during the reset."""
        shares = {worker: share for worker, rows in enumerate(self._rows) if (share := [r for r in rows if r in seeds])}
        if dead := [worker for worker in shares if not self._pool.alive(worker)]:
            self._start(dead)
        for worker, share in shares.items():
            row_seeds = [self._seed(row, seeds[row]) for row in share]
            positions = [row - self._rows[worker].start for row in share]
            self._pool.call(worker, "begin", positions, row_seeds, options, deadline=self._deadline)
        # All results are processed before the first error is raised, so that every lost worker is recorded.
        starts: dict[int, tuple[str, dict[str, Any]]] = {}
        results = self._pool.outcomes(list(shares))
        for (worker, share), result in zip(shares.items(), results, strict=True):
            if isinstance(result, WorkerLost):
                self._lose(worker)
            elif not isinstance(result, CallError):
                starts |= dict(zip(share, result, strict=True))
        for worker, result in zip(shares, results, strict=True):
            if isinstance(result, WorkerLost):
                raise WorkerFailure(f"{self._label(worker)} {result.reason} in reset. Call reset() to restart it.")
            _raise(result)
        return starts

    def _seed(self, row: int, seed: int | None) -> int | None:
        """Return the seed for the reset of a row.

        A new environment that replaces a lost one gets a seed derived from the row's own seed.
        """
        # Without a seed, the new environment would draw one from the system, and no run could be repeated.
        if seed is not None:
            self._seeds[row], self._losses[row] = seed, 0
        elif self._lost[row] and (row_seed := self._seeds[row]) is not None:
            seed = seed_of(row_seed, self._losses[row])
        self._lost[row] = False
        return seed

    def _lose(self, worker: int) -> None:
        for row in self._rows[worker]:
            self._lost[row] = True
            self._losses[row] += 1

    def _advance(self, replies: list[str]) -> Batch:
        answers = or_none(replies, self._ended)
        living = [worker for worker in range(len(self._rows)) if self._pool.alive(worker)]
        dead = [worker for worker in range(len(self._rows)) if worker not in living]
        for worker in living:
            worker_rows = self._rows[worker]
            self._pool.call(worker, "advance", answers[worker_rows.start : worker_rows.stop], deadline=self._deadline)
        rows: dict[int, SlotStep] = {}
        results = self._pool.outcomes(living)
        for worker, result in zip(living, results, strict=True):
            if isinstance(result, WorkerLost):
                self._lose(worker)
                rows |= self._truncate_rows(worker, result)
            elif not isinstance(result, CallError):
                rows |= dict(zip(self._rows[worker], result, strict=True))
        for result in results:
            _raise(result)
        # This happens only in mode NEXT_STEP, in which all rows of a dead worker wait for their reset.
        for worker in dead:
            starts = self._begin_rows(dict.fromkeys(self._rows[worker]), None)
            rows |= {row: SlotStep(text, (info,)) for row, (text, info) in starts.items()}
        return self._gather([rows[row] for row in range(self.num_envs)])

    def _truncate_rows(self, worker: int, lost: WorkerLost) -> dict[int, SlotStep]:
        """Return the rows of a worker that failed: truncated, with their last observation again."""
        worker_rows = self._rows[worker]
        failed = {row: (self._texts[row], {"failure": f"{lost.kind}: {lost.reason}"}) for row in worker_rows}
        if self.autoreset_mode is not AutoresetMode.SAME_STEP:
            return {row: SlotStep(text, (info,), truncated=True) for row, (text, info) in failed.items()}
        starts = self._begin_rows(dict.fromkeys(worker_rows), None)
        return {
            row: SlotStep(starts[row][0], ({"final_obs": text, "final_info": info}, starts[row][1]), truncated=True)
            for row, (text, info) in failed.items()
        }


def _raise(result: object) -> None:
    """Raise the exception that an environment raised in its worker, as without workers."""
    if isinstance(result, CallError):
        raise result.error
