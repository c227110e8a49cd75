"""`Preemption`: SIGTERM ends a run with a checkpoint from which it goes on exactly, within a rollout, too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from accelerate.utils import set_seed
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from mage_envs.exceptions import Interruption


class Preempted(Interruption):
    """The rollout under way is thrown away. No `except Exception` in what it calls catches this."""


class Preemption(TrainerCallback):
    """Ends training with a checkpoint where one loses nothing, once `ask` was called on any rank.

    A rollout is thrown away, and played again by the run that goes on: its streams are keyed, and what draws from
    torch's own generators finds them as they were. So is an evaluation after its last update. Once its updates have
    begun, it is trained to its end first.
    """

    def __init__(self) -> None:
        self.asked = False
        """On this rank."""
        self.due = False
        """Asked on some rank, with the rollout's last update under way; equal on all ranks."""
        self.stopped = False
        """Whether training ended here."""
        self._interrupts = False
        self._device = torch.device("cpu")
        self._random: list[torch.Tensor] = []
        """States of torch's generators before the rollout."""

    def ask(self, *signal: object) -> None:
        """Fit to be a signal's handler."""
        self.asked = True
        if self._interrupts:
            self._interrupts = False
            raise Preempted

    def check(self, *progress: object) -> None:
        """Raises Preempted where this rank was asked."""
        if self.asked:
            raise Preempted

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """Within it `ask` raises Preempted wherever the process is."""
        self.check()
        self._interrupts = True
        try:
            yield
        finally:
            self._interrupts = False

    def mark(self) -> None:
        """Keeps the states of torch's generators; nothing here draws from Python's or NumPy's global ones."""
        self._random = [torch.get_rng_state()]
        if self._device.type != "cpu":
            self._random.append(torch.get_device_module(self._device).get_rng_state())

    def rewind(self) -> None:
        """Takes the generators back to where they were at `mark`."""
        torch.set_rng_state(self._random[0])
        if self._device.type != "cpu":
            torch.get_device_module(self._device).set_rng_state(self._random[1])

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        """A run has one epoch. Before its first update the generators depend on the seed alone, so that a run which was
        stopped there begins as it began."""
        self._device = args.device
        if not state.global_step:
            set_seed(args.seed, device_specific=True)
        self.mark()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        if self.due:
            self.stopped = control.should_save = control.should_training_stop = True
