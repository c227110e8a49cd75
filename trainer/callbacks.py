"""Callbacks of the trainer: the rollout count that a checkpoint carries, and a progress bar that knows the end."""

from __future__ import annotations

from typing import Any

from transformers import ProgressCallback, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ExportableState

from trainer.ledger import Ledger
from trainer.settings import FOREVER


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
        self._deferred = False

    def state(self) -> dict[str, Any]:
        return {"args": {}, "attributes": {"rollouts": self.rollouts, "population": self.population}}

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        kept: Any = state.stateful_callbacks or {}
        held = kept.get(type(self).__name__) if state.global_step else None
        self.rollouts = held["attributes"]["rollouts"] if held else 0
        self.population = held["attributes"].get("population") if held else None
        self.updates_left = 0
        self._deferred = False

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self.updates_left and control.should_save and not control.should_training_stop:
            control.should_save = False
            self._deferred = True
        elif not self.updates_left and self._deferred:
            control.should_save = True
            self._deferred = False


class LedgerOfRun(TrainerCallback):
    """Takes the ledger of failures back to where the run goes on from."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if state.is_world_process_zero:
            self._ledger.resume(state.global_step)


class RolloutProgressBar(ProgressCallback):
    """TRL's progress bar, whose total follows `state.max_steps` as the trainer learns the length of the run."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        super().on_train_begin(args, state, control, **kwargs)  # type: ignore[no-untyped-call]
        self._follow(state)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._follow(state)
        super().on_step_end(args, state, control, **kwargs)  # type: ignore[no-untyped-call]

    def _follow(self, state: TrainerState) -> None:
        bar: Any = self.training_bar
        if bar is not None:
            bar.total = None if state.max_steps >= FOREVER else state.max_steps
