"""`TrainerHooks`: GRPOTrainer whose private extension points are public methods.

This module and `trl_compat` are the only ones that override or call a private name of TRL or transformers.
`trl_compat.check_trl` tests at start that the installed versions still have all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch.utils.data import Sampler, SequentialSampler
from trl.trainer.grpo_trainer import GRPOTrainer

from mage_envs.trainer.config.mage_config import MAGEConfig


class TrainerHooks(GRPOTrainer):
    """GRPOTrainer with public hooks. Each receives the Trainer's own behaviour as `default` if it may replace it."""

    args: MAGEConfig

    # -- hooks, which subclasses override -------------------------------------------------------------------

    def run_epoch(self, default: Callable[[], None]) -> None:
        """Run the training loop; a run has a single epoch."""
        default()

    def on_loop_end(self) -> None:
        """Act between the training loop and the Trainer's final steps."""

    def is_best(self, metrics: Mapping[str, float], default: Callable[[], bool]) -> bool:
        """Return True if the metrics of an evaluation are the best so far."""
        return default()

    def save_checkpoint(self, default: Callable[[], None]) -> None:
        """Save a checkpoint."""
        default()

    def checkpoint_parent(self) -> Path | None:
        """Return the folder in which the Trainer creates the checkpoint's folder; None is the run's folder."""
        return None

    def on_gradient(self, norm: Any) -> None:
        """Act between the backward passes of an update and its optimiser step; `norm` is the gradient's."""

    # -- the Trainer's private methods, as public ones ------------------------------------------------------

    def run_evaluation(self) -> dict[str, float]:
        """Evaluate, log the metrics and update the scheduler, as the training loop does."""
        metrics: dict[str, float] = self._evaluate(None, None)
        return metrics

    def update_best(self, metrics: dict[str, float]) -> bool:
        """Record the metrics if they are the best so far, as the training loop does."""
        return bool(self._determine_best_metric(metrics, None))

    def write_checkpoint(self) -> None:
        """Save a checkpoint now."""
        self._save_checkpoint(cast(torch.nn.Module, self.model), None)

    def write_weights(self, folder: str | None, weights: Mapping[str, torch.Tensor]) -> None:
        """Save weights that were gathered from all ranks."""
        self._save(folder, cast(Any, weights))

    def restore_random_state(self, checkpoint: str | None) -> None:
        """Restore the random states of a checkpoint."""
        self._load_rng_state(checkpoint)

    def learning_rate(self) -> float:
        """Return the current learning rate."""
        return float(self._get_learning_rate())

    # -- what the Trainer calls -----------------------------------------------------------------------------

    def _run_epoch(self, *args: Any, **kwargs: Any) -> None:
        self.run_epoch(partial(super()._run_epoch, *args, **kwargs))

    def _finalize_training(self, *args: Any, **kwargs: Any) -> Any:
        self.on_loop_end()
        return super()._finalize_training(*args, **kwargs)  # type: ignore[no-untyped-call]

    def _determine_best_metric(self, metrics: dict[str, float], trial: Any) -> bool:
        return bool(self.is_best(metrics, partial(super()._determine_best_metric, metrics, trial)))

    def _save_checkpoint(self, model: torch.nn.Module, trial: Any) -> None:
        self.save_checkpoint(partial(super()._save_checkpoint, model, trial))

    def _get_output_dir(self, trial: Any) -> str:
        parent = self.checkpoint_parent()
        return str(super()._get_output_dir(trial) if parent is None else parent)

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        norm = super()._get_grad_norm(model, grad_norm)  # type: ignore[no-untyped-call]
        self.on_gradient(norm)
        return norm

    def _get_eval_sampler(self, eval_dataset: Any) -> Sampler[Any]:
        # Evaluation tasks are played in their order, on one process or many.
        return SequentialSampler(eval_dataset)
