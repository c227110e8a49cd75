"""What an executor is, and what it promises."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from mage_envs.exceptions import reason_of
from mage_envs.processes import SLOW, Lost, Raised, WorkerFailure

T = TypeVar("T")
Work = Callable[[Any], Any]
"""Does one job, and returns its result; None: the job goes on, with the same call again."""
MakeWork = Callable[[], Work]
"""Makes the work in a process, once; it can be pickled."""
RETRIES = 2
"""Times that a job begins again whose worker was lost."""


@dataclass(frozen=True)
class Conditions:
    """How an executor deals with work that does not come back."""

    retries: int = RETRIES
    """Times that a job begins again whose worker died; not after a hang, which would hang again."""
    deadline: float = 0.0
    """Seconds that one call may take before its process is killed, where the process is on this machine; 0: any."""
    slow_after: float = SLOW
    """Seconds of a call after which `tell` hears of it, once."""
    tell: Callable[[int, float], None] | None = None
    """Called with the place of the job and the seconds."""


ORDINARY = Conditions()


class Executor(Protocol):
    """Does jobs. Each result comes exactly once, in any order."""

    pieces: int
    """Jobs into which work is best cut, where it can be cut."""

    def run(
        self, make: MakeWork, jobs: Sequence[Any], conditions: Conditions = ORDINARY
    ) -> Generator[tuple[int, Any], None, None]:
        """The place of each job with its result, with `Raised` where the work raised, or with `Lost`.

        Closing the generator ends what still runs. RuntimeError tells in one line that there are no workers to be had.
        """
        ...


def given(outcome: Any, who: str) -> Any:
    """The result; raises what was raised, and WorkerFailure where the worker was lost. `who`: the job, in words."""
    if isinstance(outcome, Raised):
        error = (
            outcome.error
            if isinstance(outcome.error, Exception | SystemExit)
            else RuntimeError(reason_of(outcome.error))
        )
        error.add_note(outcome.traceback)
        raise error
    if isinstance(outcome, Lost):
        raise WorkerFailure(f"{who}: {outcome.reason}")
    return outcome


def in_order(executor: Executor, function: Callable[..., T], fixed: Sequence[Any], jobs: Sequence[Any]) -> Iterator[T]:
    """`function(*fixed, job)` of each job, in the jobs' order, as `ordered`."""
    return ordered(executor, partial(partial, function, *fixed), jobs)


def ordered(executor: Executor, make: MakeWork, jobs: Sequence[Any]) -> Iterator[Any]:
    """What the work that `make` makes gives for each job, in the jobs' order, as soon as those before it are there.

    Raises what the work raised, and WorkerFailure where a job's worker was lost once too often.
    """
    early: dict[int, Any] = {}
    with contextlib.closing(executor.run(make, jobs)) as running:
        following = 0
        for place, outcome in running:
            early[place] = given(outcome, f"job {jobs[place]!r}")
            while following in early:
                yield early.pop(following)
                following += 1
