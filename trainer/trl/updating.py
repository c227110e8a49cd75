"""`UpdatingTrainer`: scores a rollout's rows, and computes each update's gradient over micro-batches and ranks."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from itertools import islice
from math import isfinite
from typing import Any, NamedTuple, cast

import torch

from trainer.method.batch import MicroBatch, Row, Update, collate, reuse_sampling, split_rows
from trainer.method.loss import LossTerms, Scores, policy_loss, score_logits
from trainer.method.metrics import LARGEST_RATIO, MISMATCH, UPDATE_METRICS, update_metrics
from trainer.runs.preemption import Preemption
from trainer.trl import trl_compat
from trainer.trl.evaluation import EvaluatingTrainer
from trainer.trl.skipped_updates import SkippedUpdates, is_broken


class RecordedUpdate(NamedTuple):
    """Metrics of an update between its backward pass and the optimiser step."""

    metrics: dict[str, float]
    skipped: bool


class UpdatingTrainer(EvaluatingTrainer):
    """Trainer that turns the updates of a rollout into gradients. A subclass fills `_updates`."""

    _updates: deque[Update]
    preemption: Preemption
    skipped: SkippedUpdates
    _recorded: RecordedUpdate
    """The update under way, until its gradient norm is known and it is logged."""
    _is_first = True
    """True if the next update is a rollout's first one, with the weights that the rollout was scored with."""

    def _forwards(self, row: Row) -> bool:
        """Return True if a row can have a gradient: by an advantage, or by a term that applies to every token."""
        everywhere = self.beta or self.args.entropy_coef or self.args.uniform_legal_coef
        return bool(everywhere or row.advantages.any())

    @property
    def _pad_id(self) -> int:
        return int(cast(Any, self.processing_class).pad_token_id)

    def _forward(self, model: torch.nn.Module, batch: MicroBatch) -> Scores:
        inputs = {"input_ids": batch.ids, "attention_mask": batch.attention, "position_ids": batch.positions}
        with self.accelerator.autocast():
            if self.args.constrained or self.args.uniform_legal_coef:
                # Logits of the trained positions only: a whole (B, T, V) tensor would be the largest of the update.
                columns, where = torch.unique(batch.columns - 1, return_inverse=True)
                logits = model(**inputs, use_cache=False, logits_to_keep=columns).logits[batch.rows, where]
                return score_logits(logits, batch, self.args.temperature, self.args.constrained)
            # (B, T): the fused LM head scores only the positions with a label, and never stores all logits.
            labels = torch.full_like(batch.ids, -100)
            labels[batch.rows, batch.columns] = batch.ids[batch.rows, batch.columns]
            logps, entropy = trl_compat.fused_scores(model, inputs, labels)
        at = (batch.rows, batch.columns - 1)
        return Scores(logps[at], torch.zeros_like(logps[at]) if entropy is None else entropy[at])

    def _score_rows(self, model: torch.nn.Module) -> dict[str, float]:
        """Score the rollout's rows before its first update: old and reference log-probabilities.

        The first update computes its old ones itself. A sampler with weights or numerics of its own is trusted if its
        mismatch was small at the last measurement.
        """
        differs = LossTerms.from_config(self.args).correct_sampling
        close = self.progress.mismatch is not None and self.progress.mismatch <= self.args.reuse_mismatch
        reuse = self.args.reuse_sampling_logprobs and (close or not differs)
        # The first update runs at the scored weights, so its own forward pass gives the old log-probabilities. With
        # `differs` that pass also measures the sampler's mismatch.
        first = 0 if reuse and not differs else 1
        with trl_compat.scoring(self):
            for update in islice(self._updates, first, None):
                update.reused = reuse
                for rows in update.batches:
                    if reuse:
                        reuse_sampling(rows)
                    else:
                        for row, old in zip(rows, self._log_probabilities(model, rows), strict=True):
                            row.old = old
            if self.beta:
                with trl_compat.reference_model(self, model) as reference:
                    for rows in [batch for update in self._updates for batch in update.batches]:
                        for row, held in zip(rows, self._log_probabilities(reference, rows), strict=True):
                            row.reference = held
        return {"sampling/reused": float(reuse)} if differs else {}

    def _log_probabilities(self, model: torch.nn.Module, rows: Sequence[Row]) -> list[Any]:
        batch = collate(rows, self._pad_id, self.accelerator.device)
        return split_rows(self._forward(model, batch).logps, rows)

    def _backward(self, model: torch.nn.Module, update: Update) -> torch.Tensor:
        """Accumulate the gradient of one update over its micro-batches; return this rank's share of the loss.

        Ranks' gradients are averaged, so each rank divides by the tokens of all ranks and multiplies by their number.
        """
        started = time.perf_counter()
        terms = LossTerms.from_config(self.args, self._run_share())
        scale = self.accelerator.num_processes / terms.denominator(update)
        total = torch.zeros((), device=self.accelerator.device)
        sums: dict[str, torch.Tensor] = defaultdict(lambda: torch.zeros((), device=self.accelerator.device))
        for number, rows in enumerate(update.batches, start=1):
            batch = collate(rows, self._pad_id, self.accelerator.device)
            with trl_compat.micro_batch(self.accelerator, model, last=number == len(update.batches)):
                # Backward per micro-batch, so that only one micro-batch's activations are in memory.
                loss, parts = policy_loss(self._forward(model, batch), batch, terms)
                trl_compat.backward(self.accelerator, loss * scale)
            total += loss.detach() * scale
            for key, value in parts.items():
                sums[key] = torch.maximum(sums[key], value) if key == LARGEST_RATIO else sums[key] + value
            sums["padded"] = sums["padded"] + batch.ids.numel()
            sums["useful"] = sums["useful"] + sum(row.length for row in rows)
        sums["loss"] = total / self.accelerator.num_processes
        sums["broken"] = is_broken(model, total, scaled=self.accelerator.scaler is not None)
        if not self._record_update(update, sums, time.perf_counter() - started):
            return total
        if self.accelerator.scaler is None:
            # The optimiser leaves out weights without a gradient. A gradient scaler skips the step itself.
            model.zero_grad()
        return torch.zeros_like(total)

    def _run_share(self) -> float:
        """Return the progress of the run in [0, 1], by rollouts if their number is set."""
        if self.args.max_rollouts is None:
            return self.state.global_step / max(self.args.max_steps - 1, 1)
        return (self.progress.rollouts - 1) / max(self.args.max_rollouts - 1, 1)

    def _record_update(self, update: Update, sums: Mapping[str, torch.Tensor], seconds: float) -> bool:
        """Record an update for the log. Return True if all ranks must skip it, because one rank's is not finite."""
        # One vector and one collective. Every rank sends the same keys, because a missing one would shift the others.
        keys = [*UPDATE_METRICS, "loss", "padded", "useful", "broken"]
        nothing = torch.zeros((), device=self.accelerator.device)
        local = torch.stack([*(sums.get(key, nothing).float() for key in keys), nothing + self.preemption.asked])
        *summed, asked = self.accelerator.reduce(local, reduction="sum").tolist()
        self.preemption.due = asked > 0 and not self._updates
        totals = {key: value for key, value in zip(keys, summed, strict=True) if key in sums}
        if LossTerms.from_config(self.args).correct_sampling:
            totals[LARGEST_RATIO] = float(self.accelerator.gather(sums[LARGEST_RATIO]).max())
        # The sampler's log-probabilities were used as the old ones, so a difference cannot be measured.
        if update.reused:
            totals = {key: value for key, value in totals.items() if not key.startswith("sampling/")}
        elif MISMATCH in totals and self._is_first:
            self.progress.mismatch = totals[MISMATCH] / max(update.scored, 1)
        self._is_first = not self._updates
        self.state.num_input_tokens_seen += int(totals["padded"])
        skipped = bool(totals.pop("broken") > 0)
        metrics = update_metrics(totals, update.tokens, update.scored, seconds, skipped)
        trl_compat.record(self, "train", metrics)
        self._recorded = RecordedUpdate(metrics | ({} if skipped else {"loss": totals["loss"]}), skipped)
        return skipped

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        """Return the norm of the gradient and log the update. The Trainer calls this once per update."""
        norm = super()._get_grad_norm(model, grad_norm)  # type: ignore[no-untyped-call]
        metrics, skipped = self._recorded
        metrics["learning_rate"] = self._get_learning_rate()
        if not skipped and isfinite(norm):
            metrics["grad_norm"] = float(norm)
        if self.accelerator.is_main_process:
            self.run_log.on_update(self.state.global_step, metrics, len(self._updates))
        # After the log, because this may raise RunStopped.
        self.skipped.record(skipped, self.state.global_step, self.progress.rollouts - 1)
        return norm
