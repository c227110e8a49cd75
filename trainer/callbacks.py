"""Callbacks of the trainer: rollouts counted in checkpoints, files that go back with them, evaluations, SIGTERM."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ExportableState

from trainer.ledger import Ledger
from trainer.run_log import RunLog


class RolloutProgress(TrainerCallback, ExportableState):
    """Counts rollouts, and moves checkpoints to their ends.

    A checkpoint within a rollout would lose the rows that are still to be trained, so it is written after the last
    of them: a resumed run then equals an uninterrupted one.
    """

    def __init__(self) -> None:
        self.rollouts = 0
        """Rollouts started so far; the next one's index."""
        self.updates_left = 0
        """Optimiser steps that the current rollout still feeds, after the one under way."""
        self.population: dict[str, Any] | None = None
        """State of the opponents' population after the last rollout."""
        self.mismatch: float | None = None
        """Of the sampler, when it was last measured."""
        self.evaluation_due = False
        """Whether the evaluation after the last update was given up, so that the run which goes on begins with it."""
        self._deferred = False

    def state(self) -> dict[str, Any]:
        kept = {
            "rollouts": self.rollouts,
            "population": self.population,
            "mismatch": self.mismatch,
            "evaluation_due": self.evaluation_due,
        }
        return {"args": {}, "attributes": kept}

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        kept: Any = state.stateful_callbacks or {}
        held = kept.get(type(self).__name__) if state.global_step else None
        self.rollouts = held["attributes"]["rollouts"] if held else 0
        self.population = held["attributes"].get("population") if held else None
        self.mismatch = held["attributes"].get("mismatch") if held else None
        self.evaluation_due = bool(held and held["attributes"].get("evaluation_due"))
        self.updates_left = 0
        self._deferred = False

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self.updates_left and control.should_save and not control.should_training_stop:
            control.should_save = False
            self._deferred = True
        elif not self.updates_left and self._deferred:
            control.should_save = True
            self._deferred = False


class FilesOfRun(TrainerCallback):
    """Takes the ledger of failures and the log back to where the run goes on from."""

    def __init__(self, ledger: Ledger, log: RunLog, progress: RolloutProgress) -> None:
        """`progress` has gone back before."""
        self._ledger, self._log, self._progress = ledger, log, progress

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if state.is_world_process_zero:
            self._ledger.resume(state.global_step, self._progress.evaluation_due)
            self._log.resume(state.global_step, self._progress.evaluation_due)


class Evaluations(TrainerCallback):
    """Asks for an evaluation at the end of every n-th rollout, and of the last one."""

    def __init__(self, progress: RolloutProgress, every: int, rollouts: int | None) -> None:
        self._progress, self._every, self._last = progress, every, rollouts

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        done = self._progress.rollouts
        if not self._progress.updates_left and (done % self._every == 0 or done == self._last):
            control.should_evaluate = True
