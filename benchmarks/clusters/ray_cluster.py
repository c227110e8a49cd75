"""Executor that runs jobs as tasks of a Ray cluster, a new or a running one. It requires the extra `ray`."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import ray
from ray.exceptions import LocalRayletDiedError, RayError, RaySystemError

from mage_envs.benchmarks.clusters.remote import Sent, pack_work
from mage_envs.benchmarks.executors.jobs import ORDINARY, Conditions, Executor, MakeWork
from mage_envs.processes.call_outcomes import CRASH, WorkerLost

CPUS = 1
"""CPUs per job."""
PATIENCE = 10.0
"""Timeout in seconds for the first connection to the head node."""
PIECES = 64
"""Recommended number of jobs. A task costs 1 to 2 ms, so many small jobs keep a cluster of any size busy."""


class RayCluster(Executor):
    """Executor that runs each job as a Ray task of one CPU. If a worker or a node is lost, Ray retries its task.

    Every node needs the same installation and the modules that are imported from the current folder. The timeout of a
    call is not enforced. If the head node is lost, the run fails; results that were already yielded are kept.
    """

    def __init__(self, address: str | None = None) -> None:
        """Store the address of a running cluster; None starts one with this machine's cores for each run."""
        self._address = address
        self.pieces = PIECES

    def run(
        self, make: MakeWork, jobs: Sequence[Any], conditions: Conditions = ORDINARY
    ) -> Generator[tuple[int, Any], None, None]:
        """Run jobs as described in `Executor.run`."""
        # Pickled before the cluster is started, so that work that cannot be sent fails at once.
        work = pack_work(make)
        with self.connect():
            task = ray.remote(num_cpus=CPUS, max_retries=conditions.retries)(_do)
            # One copy in the object store instead of one per task.
            stored_work = ray.put(work)
            waiting = {task.remote(stored_work, job): index for index, job in enumerate(jobs)}
            try:
                yield from _results(waiting, conditions)
            finally:
                # Empty after a complete run. `force` kills the worker, because a task may be inside compiled code.
                for reference in waiting:
                    ray.cancel(reference, force=True)

    @contextlib.contextmanager
    def connect(self) -> Iterator[None]:
        """Connect to the cluster for the block. Raise RuntimeError if it does not start or answer."""
        # The caller's own connection is used, and it is not shut down here.
        if ray.is_initialized():
            yield
            return
        try:
            _knock(self._address)
            ray.init(
                address=self._address or "local", log_to_driver=False, logging_level="ERROR", include_dashboard=False
            )
        # Ray raises a bare Exception if a node starts too late.
        except Exception as error:
            where = f"at {self._address}" if self._address else "on this machine"
            raise RuntimeError(
                f"The Ray cluster {where} does not answer ({_line(error)}). It must start within 30 s, which may be "
                "too short on a busy machine. Try again, or use --executor processes:N."
            ) from error
        try:
            yield
        finally:
            ray.shutdown()


def _knock(address: str | None) -> None:
    """Raise OSError if no server listens at `HOST:PORT`."""
    # Ray itself would try to connect for ten minutes.
    host, _, port = (address or "").rpartition(":")
    if port.isdecimal() and "/" not in host:
        socket.create_connection((host, int(port)), timeout=PATIENCE).close()


def _do(work: Sent, job: Any) -> Any:
    """Run one job in a Ray task."""
    return work(job)


def _results(waiting: dict[Any, int], conditions: Conditions) -> Iterator[tuple[int, Any]]:
    since, has_told = time.monotonic(), False
    # References are removed from the caller's dictionary as they end, so that it cancels only the others.
    while waiting:
        ready, _ = ray.wait(list(waiting), num_returns=1, timeout=conditions.slow_after)
        if not ready:
            if conditions.tell is not None and not has_told:
                has_told = True
                conditions.tell(min(waiting.values()), time.monotonic() - since)
            continue
        since, has_told = time.monotonic(), False
        index = waiting.pop(ready[0])
        try:
            outcome = ray.get(ready[0])
        # Both are subclasses of RayError, but no further task of this cluster would succeed after them.
        except (RaySystemError, LocalRayletDiedError) as error:
            raise RuntimeError(f"The Ray cluster is lost ({_line(error)}). Finished results are kept.") from error
        # The worker or the node died more often than Ray retries.
        except RayError as error:
            outcome = WorkerLost(CRASH, f"its Ray worker died: {_line(error)}")
        yield index, outcome


def _line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}"
