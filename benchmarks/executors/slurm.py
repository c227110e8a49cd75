"""Work as array jobs of a Slurm queue, by submitit. Extra `slurm`."""

from __future__ import annotations

import contextlib
import io
import signal
import subprocess
import time
import uuid
from collections.abc import Generator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import submitit
from submitit.core.utils import FailedJobError, UncompletedJobError

from benchmarks.executors.jobs import ORDINARY, Conditions, MakeWork
from benchmarks.executors.remote import Sent, sent
from mage_envs.processes import Lost, Raised
from mage_envs.processes.outcomes import CRASH, HANG

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
PREEMPTED = "PREEMPTED"
FINAL = {"CANCELLED": CRASH, "TIMEOUT": HANG}
"""States of a task that somebody or its time has ended: it is not sent again."""


class SlurmQueue:
    """Jobs as the tasks of an array job of one CPU each; what was lost is sent again, as an array of its own.

    Every node needs the same installation. A call is not stopped at its deadline, but Slurm ends a task after `HOURS`.
    A task that gave way to others (preemption) is sent again as often as that happens.
    """

    def __init__(self, partition: str, folder: Path = FOLDER) -> None:
        self._partition, self._folder = partition, folder
        self.pieces = PIECES

    def run(
        self, make: MakeWork, jobs: Sequence[Any], conditions: Conditions = ORDINARY
    ) -> Generator[tuple[int, Any], None, None]:
        """See `Executor`."""
        name = f"mage-bench-{uuid.uuid4().hex[:8]}"
        work, queue = partial(_do, sent(make)), self._queue(name)
        todo, lost, since, told = dict(enumerate(jobs)), [0] * len(jobs), time.monotonic(), False
        running: dict[int, submitit.Job[Any]] = {}
        try:
            while todo or running:
                if todo:
                    running |= zip(todo, _submitted(queue, work, list(todo.values())), strict=True)
                    todo = {}
                done = [place for place, job in running.items() if job.done() or _state(job) == PREEMPTED]
                for place in done:
                    job = running.pop(place)
                    outcome, state = _outcome(job), _state(job)
                    since, told = time.monotonic(), False
                    again = state == PREEMPTED or (state not in FINAL and lost[place] < conditions.retries)
                    if isinstance(outcome, Lost) and again:
                        lost[place] += state != PREEMPTED
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
            if todo or running:  # by name: what was interrupted may have been a submission
                subprocess.run(["scancel", f"--name={name}"], check=False)

    def _queue(self, name: str) -> submitit.AutoExecutor:
        """What writes the scripts and hands them to `sbatch`. RuntimeError without Slurm or its accounting."""
        try:
            queue = submitit.AutoExecutor(folder=self._folder.absolute(), cluster="slurm")
        except RuntimeError as error:
            raise RuntimeError(f"There is no Slurm here ({error}); run this where sbatch and srun are.") from error
        asked = subprocess.run(["sacct", "--noheader", "--jobs=1"], capture_output=True, text=True, check=False)
        if asked.returncode:
            raise RuntimeError(
                f"Slurm keeps no accounts here ({' '.join(asked.stderr.split())}), so that nobody would hear of a "
                f"task that is lost; have sacct work, or use another executor."
            )
        queue.update_parameters(
            name=name,
            slurm_partition=self._partition,
            cpus_per_task=1,
            timeout_min=60 * HOURS,
            slurm_array_parallelism=AT_ONCE,
            slurm_additional_parameters={"no_requeue": True},  # who sends again is `run`
        )
        return queue


def _do(work: Sent, job: Any) -> Any:
    """In a task. submitit's answer to the signal before its end would be an exception in the midst of a game."""
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    return work(job)


def _submitted(queue: submitit.AutoExecutor, work: Any, jobs: list[Any]) -> list[submitit.Job[Any]]:
    """The tasks of a new array. RuntimeError where Slurm takes none, with what it says."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # where submitit prints the same
            return list(queue.map_array(work, jobs))
    except FailedJobError as error:
        raise RuntimeError(f"Slurm did not take the job: {error}") from error


def _state(job: submitit.Job[Any]) -> str:
    """As Slurm told it last, in one word: "CANCELLED by 1000" has more."""
    return str(job.watcher.get_state(job.job_id, mode="cache").split()[0])


def _outcome(job: submitit.Job[Any]) -> Any:
    """Of a task that is over. The result of one that Slurm calls completed may still be on its way to this machine."""
    lost = Lost(
        FINAL.get(_state(job), CRASH), f"its Slurm task {job.job_id} ended as {_state(job)}; see {job.paths.stderr}"
    )
    if _state(job) not in ("COMPLETED", "UNKNOWN") and not job.paths.result_pickle.exists():
        return lost
    try:
        return job.result()
    except FailedJobError as error:  # not by the work itself, whose exceptions are results
        return Raised(RuntimeError(f"Slurm task {job.job_id} could not begin; see {job.paths.stderr}"), str(error))
    except UncompletedJobError:
        return lost
