"""`RunLog`: the metrics and transcripts of a run as JSON lines, and its lines on the console."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mage_envs.trainer.runs.console import Console
from mage_envs.wrappers.rollout.resumable_jsonl import ResumableJsonl
from mage_envs.wrappers.rollout.training_log import MEASURE, METRICS, TRANSCRIPTS, means
from mage_envs.wrappers.rollout.trajectory import Trajectory
from mage_envs.wrappers.rollout.trajectory_json import Line, plain, trajectory_to_json

Numbers = Mapping[str, float]


class RunLog:
    """Log in the folder of a run.

    `metrics.jsonl` has one line of kind `rollout` for each rollout, then one of kind `update` for each of its optimiser
    steps. Each evaluation adds one of kind `eval`. `step` is the number of optimiser steps before the line (for an
    evaluation: steps done). `transcripts.jsonl` has some meta-episodes of each rollout, with messages, reply, reward,
    penalty and advantage of every call (`transcript`). `mage report` shows them.

    A rollout's metrics are written after its last update, so that a resumed run has each once.
    """

    def __init__(
        self, folder: str | Path, console: Console | None = None, transcripts: int = 2, measure: str = "success"
    ) -> None:
        self._metrics = ResumableJsonl(Path(folder) / METRICS)
        self._transcripts = ResumableJsonl(Path(folder) / TRANSCRIPTS)
        self._console = console
        self._kept, self.measure = transcripts, measure
        self._rollout: dict[str, Any] = {}
        self._updates: list[dict[str, Any]] = []

    def resume(self, step: int, evaluates: bool = False) -> None:
        """Truncate the files to `step`. `evaluates`: True if the resumed run first repeats that step's evaluation."""
        self._metrics.resume(step, "kind", evaluates)
        self._transcripts.resume(step, "kind", evaluates)
        self._rollout, self._updates = {}, []

    def on_rollout_begin(self, rollout: int, step: int) -> None:
        """Note that a rollout begins."""
        if self._console is not None:
            self._console.on_rollout_begin(rollout, step)

    def on_rollout_progress(self, rollout: int, num_finished: int, total: int) -> None:
        """Show the number of finished meta-episodes."""
        if self._console is not None:
            self._console.on_rollout_progress(rollout, num_finished, total)

    def on_rollout_end(
        self,
        rollout: int,
        step: int,
        trajectories: Sequence[Trajectory],
        advantages: Sequence[Sequence[float]],
        metrics: Numbers,
    ) -> None:
        """Log a rollout before its updates.

        Args:
            step: Optimiser steps so far.
            trajectories: Meta-episodes that are trained on.
            advantages: One advantage per step of each trajectory.
        """
        self._rollout = {**metrics, "kind": "rollout", "step": step, "rollout": rollout, MEASURE: self.measure}
        indices = _spread(len(trajectories), self._kept)
        self._transcripts.append(
            {"step": step, "rollout": rollout, **transcript(trajectories[i], advantages[i])} for i in indices
        )

    def on_update(self, step: int, metrics: Numbers, remaining_updates: int) -> None:
        """Log an update.

        Args:
            step: Optimiser steps before it.
            remaining_updates: Updates that follow in this rollout.
        """
        rollout = self._rollout.get("rollout", 0)
        self._updates.append({"kind": "update", "step": step, "rollout": rollout, **metrics})
        if remaining_updates:
            if self._console is not None:
                self._console.on_update(rollout, remaining_updates)
            return
        # One call, so that a killed run has all lines of a rollout or none.
        self._metrics.append([self._rollout, *self._updates])
        if self._console is not None:
            self._console.on_rollout_end(rollout, step + 1, {**self._rollout, **means(self._updates)})
        self._updates = []

    def on_evaluation(self, rollout: int, step: int, metrics: Numbers, line: str) -> None:
        """Log an evaluation.

        Args:
            rollout: Rollouts so far.
            step: Optimiser steps so far.
        """
        self._metrics.append([{"kind": "eval", "step": step, "rollout": rollout, MEASURE: self.measure, **metrics}])
        if self._console is not None:
            self._console.write(line)


def transcript(trajectory: Trajectory, advantages: Sequence[float]) -> Line:
    """Return a meta-episode as in evaluation records, with its place in the rollout and each call's advantage."""
    line = trajectory_to_json(trajectory)
    for call, advantage in zip(line["calls"], advantages, strict=True):
        call["advantage"] = advantage
    record: Line = plain(
        {"group": trajectory.group, "member": trajectory.member, "seconds": trajectory.seconds, **line}
    )
    return record


def _spread(count: int, limit: int) -> list[int]:
    """Return at most `limit` indices, spread evenly over all."""
    return sorted({index * count // limit for index in range(min(limit, count))}) if limit else []
