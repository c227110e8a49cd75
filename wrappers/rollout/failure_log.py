"""`FailureLog`, a file in the run's folder with one JSON line per failed attempt at a meta-episode. No torch here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mage_envs.exceptions import reason_of
from mage_envs.processes.call_outcomes import TRACEBACK, format_traceback
from mage_envs.wrappers.rollout.resumable_jsonl import ResumableJsonl
from mage_envs.wrappers.rollout.trajectory import Trajectory

FILE = "failures.jsonl"


class FailureLog:
    """Failures of a run, stored in `failures.jsonl` of its folder. The file exists after the first failure.

    A line has these keys:

    * `kind`: opponent, environment, generator, hang, crash, memory, reward or return.
    * `reason`, `traceback`.
    * `env_id`, `seed`, `task`, `opponent`, `seat`, `group`, `member`: the meta-episode.
    * `episode`, `attempt`: both from 0.
    * `given_up`: true if no further attempt followed.
    * `phase`: `train` or `eval`.
    * `step`: optimiser steps before the failure.

    An error that ended the run has the kind `run`, and besides it only `reason`, `given_up`, `traceback`,
    `phase` and `step`. A single process writes the file, each call in one piece.
    """

    def __init__(self, folder: str | Path) -> None:
        self._lines = ResumableJsonl(Path(folder) / FILE)
        self.path = self._lines.path
        self.count = 0
        """Number of failures of the run so far."""

    def resume(self, step: int, evaluates: bool = False) -> None:
        """Drop the lines of rollouts that a resumed run plays again, and an incomplete last line.

        The run resumes after `step` optimiser steps. If it `evaluates` first, that evaluation's lines are dropped, too.
        """
        self.count = self._lines.resume(step, "phase", evaluates)

    def record(self, trajectories: Iterable[Trajectory], phase: str, step: int) -> None:
        """Append the failures of some meta-episodes.

        Args:
            trajectories: Meta-episodes, failed or not. A successful retry has the failures of earlier attempts.
            phase: `train` or `eval`.
            step: Optimiser steps before them.
        """
        rows = [row | {"phase": phase, "step": step} for trajectory in trajectories for row in failure_rows(trajectory)]
        if rows:
            self._append(rows)

    def _append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.count += len(rows)
        self._lines.append(rows)

    @contextmanager
    def record_crash(self, phase: str, step: int) -> Iterator[None]:
        """Record the traceback of an error that ends the run, and add a note with the file's path to the error."""
        try:
            yield
        except Exception as error:
            row = {"kind": "run", "reason": reason_of(error), "given_up": True}
            # If the disk is full, the original error is still raised, without a note.
            with suppress(OSError):
                self._append([row | {"traceback": format_traceback(error), "phase": phase, "step": step}])
                error.add_note(f"{TRACEBACK} {self.path}")
            raise

    def rows(self) -> list[dict[str, Any]]:
        """Return all lines, without an incomplete last one."""
        return self._lines.rows()

    def summary(self) -> str:
        """Return the totals in one line, or an empty string if nothing failed."""
        rows = self.rows()
        return f"{totals(rows)}; see {self.path}" if rows else ""


def failure_rows(trajectory: Trajectory) -> list[dict[str, Any]]:
    """Return the failures of a meta-episode as JSON values, one per failed attempt."""
    task = trajectory.task
    where = {
        "env_id": task.env_id,
        "seed": task.seed,
        "task": task.task_id,
        "opponent": trajectory.opponent or None,
        "seat": task.seat,
        "group": trajectory.group,
        "member": trajectory.member,
    }
    # `failure` is None if a later attempt succeeded. Then no attempt is final.
    last_attempt = len(trajectory.failures) - 1
    return [
        {"kind": failure.kind, "reason": failure.reason, **where}
        | {
            "episode": failure.episode,
            "attempt": failure.attempt,
            "given_up": number == last_attempt and trajectory.failure is not None,
            "traceback": failure.traceback,
        }
        for number, failure in enumerate(trajectory.failures)
    ]


def totals(rows: Sequence[Mapping[str, Any]]) -> str:
    """Format the number of failures, by kind and of final ones."""
    kinds = Counter(row["kind"] for row in rows)
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    lost = sum(row["given_up"] for row in rows)
    return f"Failures: {len(rows)} ({counts}), {lost} of them for good, the others played again"
