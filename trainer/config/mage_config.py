"""`MAGEConfig`, the dataclass of all settings of a training run, which `TrlParser` reads from YAML and flags."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import torch
from trl.trainer.grpo_config import GRPOConfig

from trainer.config.inherited import refused, unread
from trainer.config.run_settings import RunSettings, processes_started
from trainer.method.metrics import WronglyStarted


@dataclass
class MAGEConfig(RunSettings, GRPOConfig):  # type: ignore[misc]
    """Settings of a training run: `RunSettings` and all other fields of `trl.GRPOConfig`.

    A field that this trainer does not read raises ValueError if it is set.
    """

    def __post_init__(self) -> None:
        # TRL would train in bf16 on a CPU, too. Checkpointing spares the memory of an accelerator and costs time.
        on_cpu = self.use_cpu or not torch.accelerator.is_available()
        if self.bf16 is None:
            self.bf16 = not on_cpu and not self.fp16
        if self.gradient_checkpointing is None:
            self.gradient_checkpointing = not on_cpu
        self.settle()
        if (message := next(chain(refused(self, self.backend), unread(self)), None)) is not None:
            raise ValueError(message)
        # Last, because `settle` computes fields that TRL checks: the batch size and the number of steps.
        GRPOConfig.__post_init__(self)  # type: ignore[no-untyped-call]
        started = processes_started()
        if started > self.world_size:
            raise WronglyStarted(
                f"{started} processes were started (WORLD_SIZE), but accelerate sees {self.world_size}, so each would "
                f"train a model of its own. Add --use_cpu true to train on CPUs, or start one process per GPU."
            )
