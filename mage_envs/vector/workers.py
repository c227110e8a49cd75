"""`WorkerVectorEnv`: the environments shared among processes, for slow environments or slow opponents.

Results are the same, to the bit, as those of `LoopVectorEnv` in one process. A worker that dies or hangs costs its
environments their episodes and nothing else: they end as truncated, `info["failure"]` says why, and their next reset
starts the worker anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode

from mage_envs.checks import check_positive, check_seconds
from mage_envs.processes import DEADLINE, Lost, Pool, Raised, WorkerFailure
from mage_envs.processes.pool import check_started
from mage_envs.randomness import seed_of
from mage_envs.vector.text_vector import Batch, Infos, Slots, SlotStep, Texts, TextVectorEnv, batch_infos, or_none


class _Share:
    """What a worker holds: its share of the environments, made by its first call."""

    def __init__(self, make_env: Callable[[], gym.Env[str, str]], same_step: bool) -> None:
        self._make_env, self._same_step = make_env, same_step
        self._slots = Slots((), same_step)

    def __call__(self, request: str, *arguments: Any) -> Any:
        if request == "make":
            self._slots = Slots([self._make_env() for _ in range(arguments[0])], self._same_step)
            return self._slots.envs[0].metadata
        return self._slots.begin(*arguments) if request == "begin" else self._slots.advance(*arguments)

    def close(self) -> None:
        for env in self._slots.envs:
            env.close()


class WorkerVectorEnv(TextVectorEnv):
    """Any id, in `workers` processes with equal shares of the environments."""

    def __init__(
        self,
        make_env: Callable[[], gym.Env[str, str]],
        num_envs: int,
        *,
        workers: int,
        deadline: float = DEADLINE,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
    ) -> None:
        """`deadline`: seconds that a worker has for a step or reset of all its environments; 0: for ever."""
        super().__init__(num_envs, autoreset_mode)
        check_positive("workers", workers)
        if workers > num_envs:
            raise ValueError(f"workers={workers} is more than num_envs={num_envs}: there is nothing for some to do.")
        check_seconds("deadline", deadline)
        self._deadline = deadline
        self._seeds: list[int | None] = [None] * num_envs
        self._losses = [0] * num_envs
        """How often each row lost its environment since it was seeded."""
        self._lost = [False] * num_envs
        """Rows whose environment is a new one that was never reset."""
        bounds = [num_envs * index // workers for index in range(workers + 1)]
        self._rows = [range(start, end) for start, end in pairwise(bounds)]
        """By worker: the environments of the batch that it holds."""
        same_step = self.autoreset_mode is AutoresetMode.SAME_STEP
        self._pool = Pool(partial(_Share, make_env, same_step), workers)
        try:
            self._describe(self._start(range(workers))[0], None)
        except BaseException:
            self.close()
            raise

    @property
    def processes(self) -> tuple[int | None, ...]:
        """Process ids of the workers, None for one that is dead."""
        return self._pool.processes

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the workers and waits for them."""
        self._pool.close()

    def _start(self, workers: Sequence[int]) -> list[Any]:
        """Starts dead workers and makes their environments; raises what prevents that, perhaps WorkerFailure."""
        for worker in workers:
            self._pool.revive(worker)
            self._pool.call(worker, "make", len(self._rows[worker]))
        outcomes = self._pool.outcomes(workers)
        return [check_started(outcome, self._named(worker)) for worker, outcome in zip(workers, outcomes, strict=True)]

    def _named(self, worker: int) -> str:
        rows = self._rows[worker]
        return f"The worker of environments {rows.start} to {rows.stop - 1}:"

    def _begin(
        self, rows: Sequence[int], seeds: Sequence[int | None], options: dict[str, Any] | None
    ) -> tuple[Texts, Infos]:
        started = self._begin_rows(dict(zip(rows, seeds, strict=True)), options)
        infos = ((row, started[row][1]) for row in rows)
        return [started[row][0] for row in rows], batch_infos(self.num_envs, infos)

    def _begin_rows(
        self, seeds: dict[int, int | None], options: dict[str, Any] | None
    ) -> dict[int, tuple[str, dict[str, Any]]]:
        """Resets the rows that `seeds` names. Raises WorkerFailure where a worker fails in that."""
        shares = {worker: share for worker, rows in enumerate(self._rows) if (share := [r for r in rows if r in seeds])}
        if dead := [worker for worker in shares if not self._pool.alive(worker)]:
            self._start(dead)
        for worker, share in shares.items():
            chosen = [self._seed(row, seeds[row]) for row in share]
            places = [row - self._rows[worker].start for row in share]
            self._pool.call(worker, "begin", places, chosen, options, deadline=self._deadline)
        started: dict[int, tuple[str, dict[str, Any]]] = {}
        results = self._pool.outcomes(list(shares))
        for (worker, share), result in zip(shares.items(), results, strict=True):
            if isinstance(result, Lost):
                self._lose(worker)
            elif not isinstance(result, Raised):
                started |= dict(zip(share, result, strict=True))
        for worker, result in zip(shares, results, strict=True):
            if isinstance(result, Lost):
                raise WorkerFailure(f"{self._named(worker)} {result.reason} in reset. Call reset() to start it anew.")
            _raise(result)
        return started

    def _seed(self, row: int, seed: int | None) -> int | None:
        """The seed to reset a row with; a new environment in place of a lost one gets one that follows from its own."""
        if seed is not None:
            self._seeds[row], self._losses[row] = seed, 0
        elif self._lost[row] and (own := self._seeds[row]) is not None:
            seed = seed_of(own, self._losses[row])
        self._lost[row] = False
        return seed

    def _lose(self, worker: int) -> None:
        for row in self._rows[worker]:
            self._lost[row] = True
            self._losses[row] += 1

    def _advance(self, replies: list[str]) -> Batch:
        answered = or_none(replies, self._ended)
        living = [worker for worker in range(len(self._rows)) if self._pool.alive(worker)]
        dead = [worker for worker in range(len(self._rows)) if worker not in living]
        for worker in living:
            own = self._rows[worker]
            self._pool.call(worker, "advance", answered[own.start : own.stop], deadline=self._deadline)
        rows: dict[int, SlotStep] = {}
        results = self._pool.outcomes(living)
        for worker, result in zip(living, results, strict=True):
            if isinstance(result, Lost):
                self._lose(worker)
                rows |= self._failed(worker, result)
            elif not isinstance(result, Raised):
                rows |= dict(zip(self._rows[worker], result, strict=True))
        for result in results:
            _raise(result)
        for worker in dead:  # in mode NEXT_STEP: all rows of a dead worker wait for their reset
            started = self._begin_rows(dict.fromkeys(self._rows[worker]), None)
            rows |= {row: SlotStep(text, (info,)) for row, (text, info) in started.items()}
        return self._gather([rows[row] for row in range(self.num_envs)])

    def _failed(self, worker: int, lost: Lost) -> dict[int, SlotStep]:
        """The rows of a worker that failed: truncated, with their last observation once more."""
        own = self._rows[worker]
        told = {row: (self._texts[row], {"failure": f"{lost.kind}: {lost.reason}"}) for row in own}
        if self.autoreset_mode is not AutoresetMode.SAME_STEP:
            return {row: SlotStep(text, (info,), truncated=True) for row, (text, info) in told.items()}
        started = self._begin_rows(dict.fromkeys(own), None)
        return {
            row: SlotStep(started[row][0], ({"final_obs": text, "final_info": info}, started[row][1]), truncated=True)
            for row, (text, info) in told.items()
        }


def _raise(result: object) -> None:
    """Raises what an environment raised in its worker, as it would have without workers."""
    if isinstance(result, Raised):
        raise result.error
