"""Executor that runs jobs as array jobs of a Slurm queue, through submitit. It requires the extra `slurm`."""

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

from mage_envs.benchmarks.clusters.remote import Sent, pack_work
from mage_envs.benchmarks.executors.jobs import ORDINARY, Conditions, Executor, MakeWork
from mage_envs.processes.call_outcomes import CRASH, HANG, CallError, WorkerLost

FOLDER = Path("slurm-jobs")
"""Folder of scripts, pickled jobs, results and logs, in the current folder, which all nodes must share."""
PIECES = 16
"""Recommended number of jobs. A task takes seconds to start, so a few large jobs are faster than many small ones."""
HOURS = 4
"""Time limit per task in hours."""
AT_ONCE = 64
"""Maximum number of tasks of one array that run at the same time."""
PAUSE = 1.0
"""Pause in seconds between two checks for results."""
PREEMPTED = "PREEMPTED"
FINAL = {"CANCELLED": CRASH, "TIMEOUT": HANG}
"""States after which a task is not submitted again: a user cancelled it, or it reached its time limit."""


class SlurmQueue(Executor):
    """Executor that runs jobs as tasks of a Slurm array job, one CPU each. Lost jobs are submitted as a new array.

    Every node needs the same installation. The timeout of a call is not enforced, but Slurm ends a task after `HOURS`.
    A preempted task is submitted again every time, without counting as a retry.
    """

    def __init__(self, partition: str, folder: Path = FOLDER) -> None:
        self._partition, self._folder = partition, folder
        self.pieces = PIECES

    def run(
        self, make: MakeWork, jobs: Sequence[Any], conditions: Conditions = ORDINARY
    ) -> Generator[tuple[int, Any], None, None]:
        """Run jobs as described in `Executor.run`."""
        # A random name, so that scancel below cannot end another run of the same user.
        name = f"mage-{uuid.uuid4().hex[:8]}"
        work, queue = partial(_do, pack_work(make)), self._queue(name)
        todo, lost, since, has_told = dict(enumerate(jobs)), [0] * len(jobs), time.monotonic(), False
        running: dict[int, submitit.Job[Any]] = {}
        try:
            while todo or running:
                if todo:
                    running |= zip(todo, _submit(queue, work, list(todo.values())), strict=True)
                    todo = {}
                # submitit does not count a preempted task as done: Slurm may requeue it, unless no_requeue is set.
                finished = [index for index, job in running.items() if job.done() or _state(job) == PREEMPTED]
                for index in finished:
                    job = running.pop(index)
                    outcome, state = _outcome(job), _state(job)
                    since, has_told = time.monotonic(), False
                    is_retried = state == PREEMPTED or (state not in FINAL and lost[index] < conditions.retries)
                    if isinstance(outcome, WorkerLost) and is_retried:
                        lost[index] += state != PREEMPTED
                        todo[index] = jobs[index]
                    else:
                        yield index, outcome
                if not finished:
                    waited = time.monotonic() - since
                    if conditions.tell is not None and not has_told and waited > conditions.slow_after:
                        has_told = True
                        conditions.tell(min(running), waited)
                    time.sleep(PAUSE)
        finally:
            # By name, because an interrupted submission has no job id yet.
            if todo or running:
                subprocess.run(["scancel", f"--name={name}"], check=False)

    def _queue(self, name: str) -> submitit.AutoExecutor:
        """Return the submitit executor. Raise RuntimeError if Slurm or its accounting is not available."""
        try:
            queue = submitit.AutoExecutor(folder=self._folder.absolute(), cluster="slurm")
        except RuntimeError as error:
            raise RuntimeError(
                f"Slurm is not available on this machine ({error}). Run the command on one that has sbatch and srun."
            ) from error
        # submitit reads the states of tasks from sacct; without it a lost task would never be noticed.
        accounting = subprocess.run(["sacct", "--noheader", "--jobs=1"], capture_output=True, text=True, check=False)
        if accounting.returncode:
            raise RuntimeError(
                f"Slurm accounting is not available ({' '.join(accounting.stderr.split())}), so lost tasks could not "
                "be detected. Enable accounting so that sacct works, or use another executor."
            )
        queue.update_parameters(
            name=name,
            slurm_partition=self._partition,
            cpus_per_task=1,
            timeout_min=60 * HOURS,
            slurm_array_parallelism=AT_ONCE,
            # `run` submits lost tasks again; a requeue by Slurm would run them twice.
            slurm_additional_parameters={"no_requeue": True},
        )
        return queue


def _do(work: Sent, job: Any) -> Any:
    """Run one job in a Slurm task."""
    # Slurm sends SIGUSR2 before the time limit, and submitit's handler would raise in the middle of a game.
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    return work(job)


def _submit(queue: submitit.AutoExecutor, work: Any, jobs: list[Any]) -> list[submitit.Job[Any]]:
    """Submit an array and return its tasks. Raise RuntimeError with Slurm's message if it is rejected."""
    try:
        # submitit prints the message of its exception to stderr, too.
        with contextlib.redirect_stderr(io.StringIO()):
            return list(queue.map_array(work, jobs))
    except FailedJobError as error:
        raise RuntimeError(f"Slurm rejected the job: {error}") from error


def _state(job: submitit.Job[Any]) -> str:
    """Return the state of a task in one word, from submitit's cache."""
    # Some states have more words, such as "CANCELLED by 1000".
    return str(job.watcher.get_state(job.job_id, mode="cache").split()[0])


def _outcome(job: submitit.Job[Any]) -> Any:
    """Return the outcome of a task that has ended."""
    lost = WorkerLost(
        FINAL.get(_state(job), CRASH), f"its Slurm task {job.job_id} ended as {_state(job)}; see {job.paths.stderr}"
    )
    # The result file of a completed task may still be on its way to this machine; job.result() waits for it.
    if _state(job) not in ("COMPLETED", "UNKNOWN") and not job.paths.result_pickle.exists():
        return lost
    try:
        return job.result()
    # The work's own exceptions are results (`CallError`), so this error is from the start of the task.
    except FailedJobError as error:
        return CallError(RuntimeError(f"Slurm task {job.job_id} could not start. See {job.paths.stderr}."), str(error))
    except UncompletedJobError:
        return lost
