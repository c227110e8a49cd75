"""Work as tasks of a Ray cluster: one that is started here, or one that runs already. Extra `ray`."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import ray
from ray.exceptions import LocalRayletDiedError, RayError, RaySystemError

from benchmarks.executors.jobs import ORDINARY, Conditions, MakeWork
from benchmarks.executors.remote import Sent, sent
from mage_envs.processes import Lost
from mage_envs.processes.outcomes import CRASH

CPUS = 1
"""That a job takes."""
PATIENCE = 10.0
"""Seconds in which the head has to answer."""
PIECES = 64
"""A task costs a millisecond or two, so that a cluster of any size is kept busy."""


class RayCluster:
    """Jobs as tasks of one CPU each. A task whose worker or node is lost is given to another.

    Every node needs the same installation, and what is imported from the current folder. A call is not stopped at its
    deadline. The head is the one thing that may not be lost: what it did is kept by whoever writes results down.
    """

    def __init__(self, address: str | None = None) -> None:
        """`address` of a cluster that runs; None: one is started here for each run, with this machine's cores."""
        self._address = address
        self.pieces = PIECES

    def run(
        self, make: MakeWork, jobs: Sequence[Any], conditions: Conditions = ORDINARY
    ) -> Generator[tuple[int, Any], None, None]:
        """See `Executor`."""
        work = sent(make)
        with self.connected():
            task = ray.remote(num_cpus=CPUS, max_retries=conditions.retries)(_do)
            held = ray.put(work)
            waiting = {task.remote(held, job): place for place, job in enumerate(jobs)}
            try:
                yield from _results(waiting, conditions)
            finally:
                for reference in waiting:
                    ray.cancel(reference, force=True)

    @contextlib.contextmanager
    def connected(self) -> Iterator[None]:
        """With the cluster. RuntimeError where it does not start or answer."""
        if ray.is_initialized():
            yield
            return
        try:
            _knock(self._address)
            ray.init(
                address=self._address or "local", log_to_driver=False, logging_level="ERROR", include_dashboard=False
            )
        except Exception as error:  # a node that starts too late is a bare Exception of Ray's
            where = f"at {self._address}" if self._address else "on this machine"
            raise RuntimeError(
                f"The Ray cluster {where} does not answer ({_line(error)}); it has 30 s to start, which a busy machine "
                "may not manage: try again, or use --executor processes:N."
            ) from error
        try:
            yield
        finally:
            ray.shutdown()


def _knock(address: str | None) -> None:
    """Raises OSError where nobody listens at `HOST:PORT`; Ray itself would try for ten minutes."""
    host, _, port = (address or "").rpartition(":")
    if port.isdecimal() and "/" not in host:
        socket.create_connection((host, int(port)), timeout=PATIENCE).close()


def _do(work: Sent, job: Any) -> Any:
    """The task."""
    return work(job)


def _results(waiting: dict[Any, int], conditions: Conditions) -> Iterator[tuple[int, Any]]:
    since, told = time.monotonic(), False
    while waiting:
        ready, _ = ray.wait(list(waiting), num_returns=1, timeout=conditions.slow_after)
        if not ready:
            if conditions.tell is not None and not told:
                told = True
                conditions.tell(min(waiting.values()), time.monotonic() - since)
            continue
        since, told = time.monotonic(), False
        place = waiting.pop(ready[0])
        try:
            outcome = ray.get(ready[0])
        except (RaySystemError, LocalRayletDiedError) as error:
            raise RuntimeError(f"The Ray cluster is lost ({_line(error)}); what was finished is kept.") from error
        except RayError as error:  # a worker or a node that died once too often
            outcome = Lost(CRASH, f"its Ray worker died: {_line(error)}")
        yield place, outcome


def _line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}"
