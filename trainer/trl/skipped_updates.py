"""Optimiser steps that are skipped because their loss or gradient is not finite."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.tensor import DTensor
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ExportableState

from trainer.method.metrics import RunStopped


class SkippedUpdates(TrainerCallback, ExportableState):
    """Count of skipped updates. Raises RunStopped after `limit` in a row; a resumed run continues the count."""

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
        # At step 0 a new run begins; the state may be that of an earlier `train` call.
        held = kept.get(type(self).__name__) if state.global_step else None
        known: dict[str, Any] = held["attributes"] if held else {"count": 0, "in_a_row": 0, "began": ""}
        self.count, self.in_a_row, self._began = known["count"], known["in_a_row"], known["began"]

    def record(self, skipped: bool, update: int, rollout: int) -> None:
        """Count an update of a rollout. `update` counts from 0.

        Args:
            skipped: True if the update was skipped.
            update: Index of the update.
            rollout: Index of its rollout.

        Raises:
            RunStopped: If `limit` updates in a row were skipped.
        """
        if not skipped:
            self.in_a_row = 0
            return
        if not self.in_a_row:
            self._began = f"update {update} (rollout {rollout})"
        self.count += 1
        self.in_a_row += 1
        if self.in_a_row >= self._limit:
            raise RunStopped(
                f"{self.in_a_row} updates in a row were skipped because their loss or gradient is not finite, the "
                f"first at {self._began}. Check that rollout's rewards, and try a lower learning_rate or beta. The "
                f"weights are still those from before, and --resume continues from the newest checkpoint."
            )


def is_broken(model: torch.nn.Module, loss: torch.Tensor, scaled: bool) -> torch.Tensor:
    """Return 1 if this rank's loss or the norm of its gradient is not finite, else 0.

    Args:
        model: The model after the backward pass.
        loss: Loss of the update.
        scaled: True under a gradient scaler (fp16). It skips its own overflows, so only the loss is checked.
    """
    fine = torch.isfinite(loss)
    gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
    if gradients and not scaled:
        norm = torch.nn.utils.get_total_norm(gradients)
        fine = fine & torch.isfinite(norm.full_tensor() if isinstance(norm, DTensor) else norm)
    return (~fine).float()
