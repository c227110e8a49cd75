"""Callbacks of the trainer: counters in checkpoints, the log files of a resumed run, evaluations."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ExportableState

from mage_envs.trainer.runs.run_log import RunLog
from mage_envs.wrappers.rollout.failure_log import FailureLog
from mage_envs.wrappers.rollout.generation_client import RunStopped


class ResumableCallback(TrainerCallback, ExportableState):
    """Callback with attributes that checkpoints store. Their defaults are those of the class."""

    stored: tuple[str, ...]
    """Names of the attributes."""

    def state(self) -> dict[str, Any]:
        """Return the state that the Trainer stores in `trainer_state.json`."""
        return {"args": {}, "attributes": {name: getattr(self, name) for name in self.stored}}

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        # The Trainer does not restore callbacks by itself unless it is configured to, so their state is read here. At
        # step 0 nothing was resumed, and the counts of an earlier `train` call must not remain.
        callback_states: Any = state.stateful_callbacks or {}
        own_state = callback_states.get(type(self).__name__) if state.global_step else None
        for name in self.stored:
            default = getattr(type(self), name)
            setattr(self, name, own_state["attributes"].get(name, default) if own_state else default)


class RolloutProgress(ResumableCallback):
    """Counter of rollouts, stored in checkpoints, which also moves checkpoints to the end of a rollout.

    A checkpoint within a rollout would lose the rows that are not trained yet. It is written after the last of them, so
    that a resumed run equals an uninterrupted one.
    """

    stored = ("rollouts", "population", "mismatch", "evaluation_due")
    rollouts: int = 0
    """Rollouts started so far; the next one's index."""
    population: dict[str, Any] | None = None
    """State of the opponents' population after the last rollout; None without a population."""
    mismatch: float | None = None
    """Last measured mean |log p - log q| between trainer and sampler; None before the first measurement."""
    evaluation_due: bool = False
    """True if the evaluation after the last update was aborted, so that a resumed run starts with it."""
    updates_left: int = 0
    """Optimiser steps left in the current rollout, without the one under way."""
    _deferred = False

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        super().on_train_begin(args, state, control, **kwargs)
        self.updates_left = 0
        self._deferred = False

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        # A run that stops now gets its checkpoint at once, because no later step would write it.
        if self.updates_left and control.should_save and not control.should_training_stop:
            control.should_save = False
            self._deferred = True
        elif not self.updates_left and self._deferred:
            control.should_save = True
            self._deferred = False


class SkippedUpdates(ResumableCallback):
    """Count of optimiser steps that are skipped: no reply to train on, or a loss or gradient that is not finite.

    Raises RunStopped after `limit` in a row; a resumed run continues the count.
    """

    stored = ("count", "in_a_row", "began")
    count: int = 0
    in_a_row: int = 0
    began: str = ""
    """Description of the first of these in a row."""

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def record(self, skipped: bool, update: int, rollout: int) -> None:
        """Count an update of a rollout. `update` counts from 0.

        Args:
            skipped: True if the update was skipped.

        Raises:
            RunStopped: If `limit` updates in a row were skipped.
        """
        if not skipped:
            self.in_a_row = 0
            return
        if not self.in_a_row:
            self.began = f"update {update} (rollout {rollout})"
        self.count += 1
        self.in_a_row += 1
        if self.in_a_row >= self._limit:
            raise RunStopped(
                f"{self.in_a_row} updates in a row were skipped, the first at {self.began}: their loss or gradient is "
                f"not finite (check that rollout's rewards, and try a lower learning_rate or beta), or all replies of "
                f"the rollout were cut and mask_truncated leaves them out (raise max_completion_length). The weights "
                f"are still those from before, and --resume continues from the newest checkpoint."
            )


class FilesOfRun(TrainerCallback):
    """Callback that truncates the failure log and the run log to the step that the run resumes from.

    Args:
        log: Log of metrics and transcripts.
        progress: Counter of rollouts. It must be registered before this callback, which reads its restored state.
    """

    def __init__(self, failure_log: FailureLog, log: RunLog, progress: RolloutProgress) -> None:
        self._failure_log, self._log, self._progress = failure_log, log, progress

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        # Only the main process writes these files.
        if state.is_world_process_zero:
            self._failure_log.resume(state.global_step, self._progress.evaluation_due)
            self._log.resume(state.global_step, self._progress.evaluation_due)


class Evaluations(TrainerCallback):
    """Callback that requests an evaluation after every n-th rollout, and after the last one.

    Args:
        interval: Rollouts between two evaluations.
        rollouts: Rollouts of the run; None if its length is counted in updates.
    """

    def __init__(self, progress: RolloutProgress, interval: int, rollouts: int | None) -> None:
        self._progress, self._every, self._last = progress, interval, rollouts

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        rollouts = self._progress.rollouts
        if not self._progress.updates_left and (rollouts % self._every == 0 or rollouts == self._last):
            control.should_evaluate = True
