"""Work as array jobs of a Slurm queue, by submitit. Extra `slurm`."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import submitit
from submitit.core.utils import FailedJobError, UncompletedJobError

from benchmarks.executors.jobs import ORDINARY, Conditions, MakeWork
from benchmarks.executors.remote import sent
from mage_envs.processes import Lost, Raised
from mage_envs.processes.outcomes import CRASH

FOLDER = Path("slurm-jobs")
"""In the current folder, which all nodes must see: the scripts, what is sent, the results, the logs."""
PIECES = 16
"""A task of an array takes some seconds to start, so that few large ones do better than many small ones."""
HOURS = 4
"""That a task may take."""
AT_ONCE = 64
"""Tasks of one array that run at one time."""
PAUSE = 1.0
"""Seconds between two looks at the results."""


class SlurmQueue:
    """Jobs as the tasks of an array job of one CPU each; what was lost is sent again, as an array of its own.

    Every node needs the same installation. A call is not stopped at its deadline, but Slurm ends a task after `HOURS`.
    """

    def __init__(self, partition: str, folder: Path = FOLDER) -> None:
        self._partition, self._folder = partition, folder
        self.pieces = PIECES

    def run(
        self, make: MakeWork, jobs: Sequence[Any], conditions: Conditions = ORDINARY
    ) -> Generator[tuple[int, Any], None, None]:
        """See `Executor`."""
        work, queue = sent(make), self._queue()
        todo, lost, since, told = dict(enumerate(jobs)), [0] * len(jobs), time.monotonic(), False
        running: dict[int, submitit.Job[Any]] = {}
        try:
            while todo or running:
                if todo:
                    running |= zip(todo, queue.map_array(work, list(todo.values())), strict=True)
                    todo = {}
                done = [place for place, job in running.items() if job.done()]
                for place in done:
                    outcome = _outcome(running.pop(place))
                    since, told = time.monotonic(), False
                    if isinstance(outcome, Lost) and lost[place] < conditions.retries:
                        lost[place] += 1
                        todo[place] = jobs[place]
                    else:
                        yield place, outcome
                if not done:
                    waited = time.monotonic() - since
                    if conditions.tell is not None and not told and waited > conditions.slow_after:
                        told = True
                        conditions.tell(min(running), waited)
                    time.sleep(PAUSE)
        finally:
            for job in running.values():
                job.cancel(check=False)

    def _queue(self) -> submitit.AutoExecutor:
        """What writes the scripts and hands them to `sbatch`. RuntimeError where there is no Slurm."""
        try:
            queue = submitit.AutoExecutor(folder=self._folder.absolute(), cluster="slurm")
        except RuntimeError as error:
            raise RuntimeError(f"There is no Slurm here ({error}); run this where sbatch and srun are.") from error
        queue.update_parameters(
            name="mage-bench",
            slurm_partition=self._partition,
            cpus_per_task=1,
            timeout_min=60 * HOURS,
            slurm_array_parallelism=AT_ONCE,
        )
        return queue


def _outcome(job: submitit.Job[Any]) -> Any:
    try:
        return job.result()
    except UncompletedJobError:
        return Lost(CRASH, f"its Slurm task {job.job_id} ended as {job.state}; its log is {job.paths.stderr}")
    except FailedJobError as error:  # not by the work itself, whose exceptions are results
        last = str(error).strip().splitlines()[-1]
        return Raised(RuntimeError(f"Slurm task {job.job_id} could not begin: {last}"), str(error))
