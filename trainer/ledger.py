"""`Ledger`: one JSON line per failed attempt at a meta-episode, with its traceback, in the run's folder. No torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mage_envs.exceptions import reason_of
from mage_envs.processes.outcomes import TRACEBACK, told
from trainer.step_lines import StepLines
from trainer.trajectory import Trajectory

FILE = "failures.jsonl"


class Ledger:
    """The failures of a run, kept in `failures.jsonl` of its folder; the file exists once there is one.

    Each line: `kind` (opponent, environment, generator, hang, crash, memory, reward, return), `reason`, `env_id`,
    `seed`, `task`, `opponent`, `seat`, `group`, `member`, `episode` and `attempt` (from 0), `given_up` (whether no
    further attempt followed), `traceback`; and where in the run it was: `phase` (`train`, `eval`), `step` (optimiser
    steps before it).
    An error that ended the run has the kind `run`, and of these no more than reason, traceback, phase and step.
    A line is written in one piece, by one process.
    """

    def __init__(self, folder: str | Path) -> None:
        self._lines = StepLines(Path(folder) / FILE)
        self.path = self._lines.path
        self.count = 0
        """Failures of the run so far."""

    def resume(self, step: int, evaluates: bool = False) -> None:
        """Drops what belongs to rollouts that are played again when the run goes on after `step` optimiser steps (where
        it `evaluates` first, to that evaluation, too), and a last line that is not whole."""
        self.count = self._lines.resume(step, "phase", evaluates)

    def record(self, trajectories: Iterable[Trajectory], phase: str, step: int) -> None:
        """Appends the failures of these meta-episodes."""
        rows = [row | {"phase": phase, "step": step} for trajectory in trajectories for row in failure_rows(trajectory)]
        if rows:
            self._append(rows)

    def _append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.count += len(rows)
        self._lines.append(rows)

    @contextmanager
    def kept(self, phase: str, step: int) -> Iterator[None]:
        """Keeps the traceback of an error that ends the run, and notes in the error where it is."""
        try:
            yield
        except Exception as error:
            row = {"kind": "run", "reason": reason_of(error), "given_up": True}
            with suppress(OSError):  # where the disk is full, it cannot be kept
                self._append([row | {"traceback": told(error), "phase": phase, "step": step}])
                error.add_note(f"{TRACEBACK} {self.path}")
            raise

    def rows(self) -> list[dict[str, Any]]:
        """All lines; one that is not whole is left out."""
        return self._lines.rows()

    def told(self) -> str:
        """All totals in one line; nothing where nothing failed."""
        rows = self.rows()
        return f"{totals(rows)}; see {self.path}" if rows else ""


def failure_rows(trajectory: Trajectory) -> list[dict[str, Any]]:
    """The failures of a meta-episode as JSON values."""
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
    last = len(trajectory.failures) - 1
    return [
        {"kind": failure.kind, "reason": failure.reason, **where}
        | {
            "episode": failure.episode,
            "attempt": failure.attempt,
            "given_up": number == last and trajectory.failure is not None,
            "traceback": failure.traceback,
        }
        for number, failure in enumerate(trajectory.failures)
    ]


def totals(rows: Sequence[Mapping[str, Any]]) -> str:
    """How many of each kind, in words."""
    kinds = Counter(row["kind"] for row in rows)
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    lost = sum(row["given_up"] for row in rows)
    return f"Failures: {len(rows)} ({counts}), {lost} of them for good, the others played again"
