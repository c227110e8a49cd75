"""`Preemption`: SIGTERM ends a run with a checkpoint from which it resumes exactly, even within a rollout."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from accelerate.utils import set_seed
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from mage_envs.exceptions import Interruption


class Preempted(Interruption):
    """Interruption of the current rollout, which is dropped. No `except Exception` in the code below catches it."""


class Preemption(TrainerCallback):
    """Callback that ends training with a checkpoint after `ask` on any rank, at a point where no work is lost.

    A rollout is dropped, and the resumed run plays it again. Its streams are keyed, and torch's own generators are
    reset to their states before the rollout. An evaluation after the rollout's last update is dropped, too. A rollout
    whose updates have begun is first trained to its end.
    """

    def __init__(self) -> None:
        self.asked = False
        """True if this rank received the signal."""
        self.due = False
        """True if some rank received the signal and the rollout's last update is under way; equal on all ranks."""
        self.stopped = False
        """True if training ended because of the signal."""
        self._interrupts = False
        self._device = torch.device("cpu")
        self._random: list[torch.Tensor] = []
        """States of torch's generators before the rollout."""

    def ask(self, *signal: object) -> None:
        """Request the end of training. It can be used as a signal handler."""
        self.asked = True
        if self._interrupts:
            # Once only: a second signal must not raise again while the first is handled.
            self._interrupts = False
            raise Preempted

    def check(self, *progress: object) -> None:
        """Raise Preempted if this rank received the signal."""
        if self.asked:
            raise Preempted

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """Within the context, `ask` raises Preempted at any point of the code."""
        # The signal may have arrived before this context.
        self.check()
        self._interrupts = True
        try:
            yield
        finally:
            self._interrupts = False

    def mark(self) -> None:
        """Store the states of torch's generators. This package draws nothing from Python's or NumPy's global ones."""
        self._random = [torch.get_rng_state()]
        if self._device.type != "cpu":
            self._random.append(torch.get_device_module(self._device).get_rng_state())

    def rewind(self) -> None:
        """Restore the states that `mark` stored."""
        torch.set_rng_state(self._random[0])
        if self._device.type != "cpu":
            torch.get_device_module(self._device).set_rng_state(self._random[1])

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        """Mark the generators' states. A run has a single epoch.

        Before the first update the states depend on the seed only, so that a run which was stopped there resumes as it
        began.
        """
        self._device = args.device
        if not state.global_step:
            set_seed(args.seed, device_specific=True)
        self.mark()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        if self.due:
            self.stopped = control.should_save = control.should_training_stop = True
