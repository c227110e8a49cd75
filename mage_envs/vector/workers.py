"""`WorkerVectorEnv`: the environments shared among processes, for slow environments or slow opponents.

Results are the same, to the bit, as those of `LoopVectorEnv` in one process. A worker that dies or hangs costs its
environments their episodes and nothing else: they end as truncated, `info["failure"]` says why, and their next reset
starts the worker anew.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode

from mage_envs.checks import check_positive
from mage_envs.randomness import seed_of
from mage_envs.vector.text_vector import Batch, Infos, SlotStep, Texts, TextVectorEnv, or_none
from mage_envs.vector.worker import Died, Worker, WorkerFailure, answers, stop

_STARTED_BY_SCRIPT = "a script that makes workers must do so below `if __name__ == '__main__':`"


class WorkerVectorEnv(TextVectorEnv):
    """Any id, in `workers` processes with equal shares of the environments."""

    def __init__(
        self,
        make_env: Callable[[], gym.Env[str, str]],
        num_envs: int,
        *,
        workers: int,
        deadline: float | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
    ) -> None:
        """`deadline`: seconds that a worker has for a step or reset of all its environments; None: forever."""
        super().__init__(num_envs, autoreset_mode)
        check_positive("workers", workers)
        if workers > num_envs:
            raise ValueError(f"workers={workers} is more than num_envs={num_envs}: there is nothing for some to do.")
        if deadline is not None and not deadline > 0:
            raise ValueError(f"deadline={deadline!r} must be a positive number of seconds, or None.")
        self._deadline = deadline
        self._seeds: list[int | None] = [None] * num_envs
        self._losses = [0] * num_envs
        """How often each row lost its environment since it was seeded."""
        self._lost = [False] * num_envs
        """Rows whose environment is a new one that was never reset."""
        same_step = self.autoreset_mode is AutoresetMode.SAME_STEP
        bounds = [num_envs * index // workers for index in range(workers + 1)]
        self._workers: list[Worker] = []
        self._stop = weakref.finalize(self, stop, self._workers)
        for start, end in pairwise(bounds):
            self._workers.append(Worker(make_env, range(start, end), same_step))
        for worker, reached in zip(self._workers, answers(self._workers, None), strict=True):
            if isinstance(reached, Died | Exception):
                self.close()
                _raise(reached)
                raise WorkerFailure(f"{worker} {reached} before its environments were made; {_STARTED_BY_SCRIPT}.")
            self._describe(reached, None)

    @property
    def processes(self) -> tuple[int | None, ...]:
        """Process ids of the workers, None for one that is dead."""
        return tuple(worker.process.pid if worker.alive else None for worker in self._workers)

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the workers and waits for them."""
        self._stop()

    def _begin(
        self, rows: Sequence[int], seeds: Sequence[int | None], options: dict[str, Any] | None
    ) -> tuple[Texts, Infos]:
        started = self._begin_rows(dict(zip(rows, seeds, strict=True)), options)
        return [started[row][0] for row in rows], self._fold((row, started[row][1]) for row in rows)

    def _begin_rows(
        self, seeds: dict[int, int | None], options: dict[str, Any] | None
    ) -> dict[int, tuple[str, dict[str, Any]]]:
        """Resets the rows that `seeds` names. Raises WorkerFailure where a worker fails in that."""
        shares = {worker: [row for row in worker.rows if row in seeds] for worker in self._workers}
        asked = [worker for worker, share in shares.items() if share]
        for worker in asked:
            if not worker.alive:
                worker.restart()
            share = shares[worker]
            chosen = [self._seed(row, seeds[row]) for row in share]
            worker.ask("begin", [row - worker.rows.start for row in share], chosen, options)
        started: dict[int, tuple[str, dict[str, Any]]] = {}
        results = answers(asked, self._deadline)
        for worker, result in zip(asked, results, strict=True):
            if isinstance(result, Died):
                self._lose(worker)
            elif not isinstance(result, Exception):
                started |= dict(zip(shares[worker], result, strict=True))
        for worker, result in zip(asked, results, strict=True):
            if isinstance(result, Died):
                raise WorkerFailure(f"{worker} {result} in reset. Call reset() again to start it anew.")
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

    def _lose(self, worker: Worker) -> None:
        for row in worker.rows:
            self._lost[row] = True
            self._losses[row] += 1

    def _advance(self, replies: list[str]) -> Batch:
        answered = or_none(replies, self._ended)
        dead = [worker for worker in self._workers if not worker.alive]
        living = [worker for worker in self._workers if worker.alive]
        for worker in living:
            worker.ask("advance", answered[worker.rows.start : worker.rows.stop])
        rows: dict[int, SlotStep] = {}
        results = answers(living, self._deadline)
        for worker, result in zip(living, results, strict=True):
            if isinstance(result, Died):
                self._lose(worker)
                rows |= self._failed(worker, result)
            elif not isinstance(result, Exception):
                rows |= dict(zip(worker.rows, result, strict=True))
        for result in results:
            _raise(result)
        for worker in dead:  # in mode NEXT_STEP: all rows of a dead worker wait for their reset
            started = self._begin_rows(dict.fromkeys(worker.rows), None)
            rows |= {row: SlotStep(text, (info,)) for row, (text, info) in started.items()}
        return self._gather([rows[row] for row in range(self.num_envs)])

    def _failed(self, worker: Worker, reason: Died) -> dict[int, SlotStep]:
        """The rows of a worker that failed: truncated, with their last observation once more."""
        told = {row: (self._texts[row], {"failure": str(reason)}) for row in worker.rows}
        if self.autoreset_mode is not AutoresetMode.SAME_STEP:
            return {row: SlotStep(text, (info,), truncated=True) for row, (text, info) in told.items()}
        started = self._begin_rows(dict.fromkeys(worker.rows), None)
        return {
            row: SlotStep(started[row][0], ({"final_obs": text, "final_info": info}, started[row][1]), truncated=True)
            for row, (text, info) in told.items()
        }


def _raise(result: object) -> None:
    """Raises what an environment raised in its worker, as it would have without workers."""
    if isinstance(result, Exception):
        raise result
