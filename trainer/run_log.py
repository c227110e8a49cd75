"""`RunLog`: what a run keeps and shows of its rollouts: metrics and transcripts as JSON lines, lines for a person."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from trainer.console import Console
from trainer.line_schema import MetricRecord, TranscriptRecord, problems_of
from trainer.lines import Line, line_of, plain
from trainer.step_lines import StepLines
from trainer.trajectory import Trajectory

METRICS, TRANSCRIPTS = "metrics.jsonl", "transcripts.jsonl"
Numbers = Mapping[str, float]


class RunLog:
    """In the folder of a run:

    `metrics.jsonl`: for each rollout a line of kind `rollout`, then one of kind `update` for each of its optimiser
    steps; for each evaluation one of kind `eval`. `step`: optimiser steps before it (of an evaluation: done).
    `transcripts.jsonl`: some meta-episodes of each rollout, with messages, reply, reward, penalty and advantage of
    every call (`transcript`); `mage-bench report` shows them.

    A rollout's lines are written when its last update is done, so a run that is resumed has each once.
    """

    def __init__(self, folder: str | Path, console: Console | None = None, transcripts: int = 2) -> None:
        self._metrics = StepLines(Path(folder) / METRICS)
        self._transcripts = StepLines(Path(folder) / TRANSCRIPTS)
        self._console = console
        self._kept = transcripts
        self._rollout: dict[str, Any] = {}
        self._updates: list[dict[str, Any]] = []

    def resume(self, step: int, evaluates: bool = False) -> None:
        """Goes back to where the run goes on from; `evaluates`: with an evaluation."""
        self._metrics.resume(step, "kind", evaluates)
        self._transcripts.resume(step, "kind", evaluates)
        self._rollout, self._updates = {}, []

    def begins(self, rollout: int, step: int) -> None:
        """A rollout begins."""
        if self._console is not None:
            self._console.begins(rollout, step)

    def plays(self, rollout: int, done: int, total: int) -> None:
        """So many of its meta-episodes are over."""
        if self._console is not None:
            self._console.plays(rollout, done, total)

    def played(
        self,
        rollout: int,
        step: int,
        trajectories: Sequence[Trajectory],
        advantages: Sequence[Sequence[float]],
        metrics: Numbers,
    ) -> None:
        """A rollout was played; its updates follow."""
        self._rollout = {**metrics, "kind": "rollout", "step": step, "rollout": rollout}
        chosen = _spread(len(trajectories), self._kept)
        self._transcripts.append(
            {"step": step, "rollout": rollout, **transcript(trajectories[i], advantages[i])} for i in chosen
        )

    def update(self, step: int, metrics: Numbers, left: int) -> None:
        """An update was made, the first after `step` others; `left` more follow in this rollout."""
        rollout = self._rollout.get("rollout", 0)
        self._updates.append({"kind": "update", "step": step, "rollout": rollout, **metrics})
        if left:
            if self._console is not None:
                self._console.trains(rollout, left)
            return
        self._metrics.append([self._rollout, *self._updates])
        if self._console is not None:
            self._console.ends(rollout, step + 1, {**self._rollout, **means(self._updates)})
        self._updates = []

    def evaluated(self, rollout: int, step: int, metrics: Numbers, line: str) -> None:
        """An evaluation after `step` updates."""
        self._metrics.append([{"kind": "eval", "step": step, "rollout": rollout, **metrics}])
        if self._console is not None:
            self._console.evaluated(line)


def means(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Each metric's mean over the updates that have it."""
    found: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        for name, value in row.items():
            if name not in ("kind", "step", "rollout"):
                found[name].append(value)
    return {name: sum(values) / len(values) for name, values in found.items()}


def transcripts(folder: str | Path) -> list[Line]:
    """Return the meta-episodes that a run kept, in the order in which they were played. Raises ValueError."""
    return _checked(StepLines(Path(folder) / TRANSCRIPTS), TranscriptRecord)


def metric_rows(folder: str | Path, kind: str) -> list[dict[str, Any]]:
    """Return the lines of one kind in a run's folder. Raises ValueError for a line of another form."""
    return [row for row in _checked(StepLines(Path(folder) / METRICS), MetricRecord) if row["kind"] == kind]


def _checked(lines: StepLines, kind: type[BaseModel]) -> list[dict[str, Any]]:
    rows = lines.rows()
    for number, row in enumerate(rows, start=1):
        if problem := next(problems_of(kind, row), None):
            raise ValueError(f"{lines.path}, line {number}, is not of this version or was changed ({problem}).")
    return rows


def transcript(trajectory: Trajectory, advantages: Sequence[float]) -> Line:
    """A meta-episode as in the records of evaluations, with its place in the rollout and each call's advantage."""
    line = line_of(trajectory)
    for call, advantage in zip(line["calls"], advantages, strict=True):
        call["advantage"] = advantage
    told: Line = plain({"group": trajectory.group, "member": trajectory.member, "seconds": trajectory.seconds, **line})
    return told


def _spread(count: int, wanted: int) -> list[int]:
    """At most `wanted` indices, evenly over all."""
    return sorted({index * count // wanted for index in range(min(wanted, count))}) if wanted else []
