"""Optimiser steps that are left out, because their loss or gradient is not finite."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.tensor import DTensor
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ExportableState

from trainer.metrics import RunStopped


class SkippedUpdates(TrainerCallback, ExportableState):
    """Counts them; RunStopped after `limit` in a row, which a resumed run goes on counting."""

    def __init__(self, limit: int) -> None:
        self.count = 0
        self.in_a_row = 0
        self._limit = limit
        self._began = ""

    def state(self) -> dict[str, Any]:
        return {"args": {}, "attributes": {"count": self.count, "in_a_row": self.in_a_row, "began": self._began}}

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        kept: Any = state.stateful_callbacks or {}
        held = kept.get(type(self).__name__) if state.global_step else None
        known: dict[str, Any] = held["attributes"] if held else {"count": 0, "in_a_row": 0, "began": ""}
        self.count, self.in_a_row, self._began = known["count"], known["in_a_row"], known["began"]

    def note(self, skipped: bool, update: int, rollout: int) -> None:
        """Tells of one more update, counted from 0, of a rollout."""
        if not skipped:
            self.in_a_row = 0
            return
        if not self.in_a_row:
            self._began = f"update {update} (rollout {rollout})"
        self.count += 1
        self.in_a_row += 1
        if self.in_a_row >= self._limit:
            raise RunStopped(
                f"{self.in_a_row} updates in a row were skipped, as their loss or gradient is not finite; it began at "
                f"{self._began}. Look at that rollout's rewards, and try a lower learning_rate or beta; the weights "
                f"are still those from before, and --resume goes on from the newest checkpoint."
            )


def is_broken(model: torch.nn.Module, loss: torch.Tensor, scaled: bool) -> torch.Tensor:
    """1 where this rank's loss or the norm of the gradient is not finite, else 0.

    `scaled`: a gradient scaler (fp16) leaves its own overflows out, so the loss alone counts.
    """
    fine = torch.isfinite(loss)
    gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
    if gradients and not scaled:
        norm = torch.nn.utils.get_total_norm(gradients)
        fine = fine & torch.isfinite(norm.full_tensor() if isinstance(norm, DTensor) else norm)
    return (~fine).float()
