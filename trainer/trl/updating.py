"""`PolicyUpdates`: scores a rollout's rows, and computes each update's gradient over micro-batches and ranks."""

from __future__ import annotations

import logging
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from math import isfinite
from typing import Any, NamedTuple, cast

import torch
from torch.distributed.tensor import DTensor

from mage_envs.trainer.config.mage_config import MAGEConfig
from mage_envs.trainer.method.batch import MicroBatch, Row, Update, collate, rank_share, reuse_sampling, split_rows
from mage_envs.trainer.method.loss import LossTerms, Scores, policy_loss, score_logits
from mage_envs.trainer.method.metrics import LARGEST_RATIO, MISMATCH, UPDATE_METRICS, update_metrics
from mage_envs.trainer.runs.preemption import Preemption
from mage_envs.trainer.runs.run_log import RunLog
from mage_envs.trainer.trl import trl_compat
from mage_envs.trainer.trl.callbacks import RolloutProgress, SkippedUpdates
from mage_envs.trainer.trl.head_check import heads_agree
from mage_envs.trainer.trl.trainer_hooks import TrainerHooks

_log = logging.getLogger(__name__)


class RecordedUpdate(NamedTuple):
    """Metrics of an update between its backward pass and the optimiser step."""

    metrics: dict[str, float]
    skipped: bool


class PolicyUpdates:
    """Turns the updates of a rollout into gradients.

    Args:
        trainer: The trainer, for its model, settings, accelerator and step count.
        preemption: Signal that ends the run.
        skipped: Counter of updates whose gradient was not finite, or that had no reply to train on.
    """

    def __init__(
        self,
        trainer: TrainerHooks,
        *,
        run_log: RunLog,
        progress: RolloutProgress,
        preemption: Preemption,
        skipped: SkippedUpdates,
    ) -> None:
        self.queue: deque[Update] = deque()
        """Updates of the current rollout that are not trained yet."""
        self._trainer, self._accelerator = trainer, trainer.accelerator
        self._run_log, self._progress, self._preemption, self._skipped = run_log, progress, preemption, skipped
        self._recorded = RecordedUpdate({}, False)
        """The update under way, until its gradient norm is known and it is logged."""
        self._fused: bool | None = None
        """True if TRL's fused head scores the model, False if its own logits do; None before the check."""
        self._is_first = True
        """True if the next update is a rollout's first one, with the weights that the rollout was scored with."""

    def fill(self, batches: Iterable[Sequence[Row]]) -> None:
        """Queue this rank's part of each mini-batch of a rollout."""
        rank, ranks = self._accelerator.process_index, self._accelerator.num_processes
        limit = self._trainer.args.max_tokens_per_microbatch
        self.queue = deque(rank_share(batch, rank, ranks, limit, self.pad_id, self._forwards) for batch in batches)

    def train_next(self, model: torch.nn.Module) -> torch.Tensor:
        """Accumulate the gradient of the next update; return this rank's share of the loss."""
        update = self.queue.popleft()
        self._progress.updates_left = len(self.queue)
        return self.backward(model, update)

    def _forwards(self, row: Row) -> bool:
        """Return True if a row can have a gradient: by an advantage, or by a term that applies to every token."""
        everywhere = self._trainer.beta or self._trainer.args.entropy_coef or self._trainer.args.uniform_legal_coef
        return bool(everywhere or row.advantages.any())

    @property
    def pad_id(self) -> int:
        """Id that pads rows."""
        return int(cast(Any, self._trainer.processing_class).pad_token_id)

    def forward(self, model: torch.nn.Module, batch: MicroBatch) -> Scores:
        """Return the scores of a micro-batch's N trained tokens."""
        args = self._trainer.args
        needs_logits = bool(args.constrained or args.uniform_legal_coef or self._fused is False)
        return self._score(model, batch, fused=not needs_logits)

    def _score(self, model: torch.nn.Module, batch: MicroBatch, fused: bool) -> Scores:
        inputs = {"input_ids": batch.ids, "attention_mask": batch.attention, "position_ids": batch.positions}
        with self._accelerator.autocast():
            if not fused:
                # Logits of the trained positions only: a whole (B, T, V) tensor would be the largest of the update.
                columns, where = torch.unique(batch.columns - 1, return_inverse=True)
                logits = model(**inputs, use_cache=False, logits_to_keep=columns).logits[batch.rows, where]
                return score_logits(logits, batch, self._trainer.args.temperature, self._trainer.args.constrained)
            # (B, T): the fused LM head scores only the positions with a label, and never stores all logits.
            labels = torch.full_like(batch.ids, -100)
            labels[batch.rows, batch.columns] = batch.ids[batch.rows, batch.columns]
            logps, entropy = trl_compat.score_with_fused_head(model, inputs, labels)
        at = (batch.rows, batch.columns - 1)
        return Scores(logps[at], torch.zeros_like(logps[at]) if entropy is None else entropy[at])

    def score(self, model: torch.nn.Module) -> dict[str, float]:
        """Score the rollout's rows before its first update: old and reference log-probabilities.

        The first update computes its old ones itself. A sampler with weights or numerics of its own is trusted if its
        mismatch was small at the last measurement.
        """
        if self._fused is None:
            self._check_head(model)
        differs = loss_terms(self._trainer.args).correct_sampling
        close = self._progress.mismatch is not None and self._progress.mismatch <= self._trainer.args.reuse_mismatch
        reuse = self._trainer.args.reuse_sampling_logprobs and (close or not differs)
        # The first update runs at the scored weights, so its own forward pass gives the old log-probabilities. With
        # `differs` that pass also measures the sampler's mismatch.
        first_scored = 0 if reuse and not differs else 1
        with trl_compat.scoring(self._trainer):
            for update in islice(self.queue, first_scored, None):
                update.reused = reuse
                for rows in update.batches:
                    if reuse:
                        reuse_sampling(rows)
                    else:
                        for row, old in zip(rows, self._log_probabilities(model, rows), strict=True):
                            row.old = old
            if self._trainer.beta:
                with trl_compat.reference_model(self._trainer, model) as reference:
                    for rows in [batch for update in self.queue for batch in update.batches]:
                        for row, reference_logprobs in zip(rows, self._log_probabilities(reference, rows), strict=True):
                            row.reference = reference_logprobs
        return {"sampling/reused": float(reuse)} if differs else {}

    def _check_head(self, model: torch.nn.Module) -> None:
        """Compare TRL's fused head with the model's own logits on two rows, and score by the logits if they differ.

        Sharded models are not checked, because no rank has the whole of one.
        """
        args, update = self._trainer.args, self.queue[0]
        if args.constrained or args.uniform_legal_coef or trl_compat.is_sharded(self._trainer) or not update.tokens:
            return
        trained = [row for batch in update.batches for row in batch if len(row.targets)]
        rows = sorted(trained, key=lambda row: row.length)
        agrees = True
        if rows:
            batch = collate(rows[:2], self.pad_id, self._accelerator.device)
            whole = cast(torch.nn.Module, self._accelerator.unwrap_model(model))
            ways = [partial(self._log_probabilities_of, whole, batch, fused) for fused in (True, False)]
            agrees = heads_agree(whole, *ways)
        # Ranks have different rows, and must all score alike.
        differing = self._accelerator.reduce(torch.tensor(float(not agrees), device=self._accelerator.device))
        self._fused = not float(differing)
        if not self._fused:
            _log.warning(
                "TRL's fused LM head scores this model otherwise than its own logits do, so the logits are used. They "
                "need more memory; with less, lower max_tokens_per_microbatch."
            )

    def _log_probabilities_of(self, model: torch.nn.Module, batch: MicroBatch, fused: bool) -> torch.Tensor:
        return self._score(model, batch, fused).logps

    def _log_probabilities(self, model: torch.nn.Module, rows: Sequence[Row]) -> list[Any]:
        batch = collate(rows, self.pad_id, self._accelerator.device)
        return split_rows(self.forward(model, batch).logps, rows)

    def backward(self, model: torch.nn.Module, update: Update) -> torch.Tensor:
        """Accumulate the gradient of one update over its micro-batches; return this rank's share of the loss.

        Ranks' gradients are averaged, so each rank divides by the tokens of all ranks and multiplies by their number.
        """
        start_time = time.perf_counter()
        terms = loss_terms(self._trainer.args, self._run_share())
        scale = self._accelerator.num_processes / max(terms.denominator(update), 1)
        total = torch.zeros((), device=self._accelerator.device)
        sums: dict[str, torch.Tensor] = defaultdict(lambda: torch.zeros((), device=self._accelerator.device))
        for number, rows in enumerate(update.batches, start=1):
            batch = collate(rows, self.pad_id, self._accelerator.device)
            with trl_compat.micro_batch(self._accelerator, model, is_last=number == len(update.batches)):
                # Backward per micro-batch, so that only one micro-batch's activations are in memory.
                loss, parts = policy_loss(self.forward(model, batch), batch, terms)
                trl_compat.backward(self._accelerator, loss * scale)
            total += loss.detach() * scale
            for key, value in parts.items():
                sums[key] = torch.maximum(sums[key], value) if key == LARGEST_RATIO else sums[key] + value
            sums["padded"] = sums["padded"] + batch.ids.numel()
            sums["useful"] = sums["useful"] + sum(row.length for row in rows)
        sums["loss"] = total / self._accelerator.num_processes
        # Without a trained token the gradient is 0, but the step would still decay the weights and move by momentum.
        broken = is_broken(model, total, scaled=self._accelerator.scaler is not None)
        sums["broken"] = broken if update.tokens else torch.ones_like(broken)
        if not self._record_update(update, sums, time.perf_counter() - start_time):
            return total
        if self._accelerator.scaler is None:
            # The optimiser leaves out weights without a gradient. A gradient scaler skips the step itself.
            model.zero_grad()
        return torch.zeros_like(total)

    def _run_share(self) -> float:
        """Return the progress of the run in [0, 1], by rollouts if their number is set."""
        if self._trainer.args.max_rollouts is None:
            return self._trainer.state.global_step / max(self._trainer.args.max_steps - 1, 1)
        return (self._progress.rollouts - 1) / max(self._trainer.args.max_rollouts - 1, 1)

    def _record_update(self, update: Update, sums: Mapping[str, torch.Tensor], seconds: float) -> bool:
        """Record an update for the log. Return True if all ranks must skip it, because one rank's is not finite."""
        # One vector and one collective. Every rank sends the same keys, because a missing one would shift the others.
        keys = [*UPDATE_METRICS, "loss", "padded", "useful", "broken"]
        nothing = torch.zeros((), device=self._accelerator.device)
        local = torch.stack([*(sums.get(key, nothing).float() for key in keys), nothing + self._preemption.asked])
        *summed, stop_requests = self._accelerator.reduce(local, reduction="sum").tolist()
        self._preemption.due = stop_requests > 0 and not self.queue
        totals = {key: value for key, value in zip(keys, summed, strict=True) if key in sums}
        if loss_terms(self._trainer.args).correct_sampling:
            totals[LARGEST_RATIO] = float(self._accelerator.gather(sums[LARGEST_RATIO]).max())
        # The sampler's log-probabilities were used as the old ones, so a difference cannot be measured.
        if update.reused:
            totals = {key: value for key, value in totals.items() if not key.startswith("sampling/")}
        elif MISMATCH in totals and self._is_first:
            self._progress.mismatch = totals[MISMATCH] / max(update.scored, 1)
        self._is_first = not self.queue
        self._trainer.state.num_input_tokens_seen += int(totals["padded"])
        skipped = bool(totals.pop("broken") > 0)
        metrics = update_metrics(totals, update.tokens, update.scored, seconds, skipped)
        trl_compat.record(self._trainer, "train", metrics)
        self._recorded = RecordedUpdate(metrics | ({} if skipped else {"loss": totals["loss"]}), skipped)
        return skipped

    def log_update(self, norm: Any) -> None:
        """Log the update under way, when the norm of its gradient is known."""
        metrics, skipped = self._recorded
        metrics["learning_rate"] = self._trainer.learning_rate()
        if not skipped and isfinite(norm):
            metrics["grad_norm"] = float(norm)
        if self._accelerator.is_main_process:
            self._run_log.on_update(self._trainer.state.global_step, metrics, len(self.queue))
        # After the log, because this may raise RunStopped.
        self._skipped.record(skipped, self._trainer.state.global_step, self._progress.rollouts - 1)


def is_broken(model: torch.nn.Module, loss: torch.Tensor, scaled: bool) -> torch.Tensor:
    """Return 1 if this rank's loss or the norm of its gradient is not finite, else 0.

    Args:
        model: The model after the backward pass.
        scaled: True under a gradient scaler (fp16). It skips its own overflows, so only the loss is checked.
    """
    fine = torch.isfinite(loss)
    gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
    if gradients and not scaled:
        norm = torch.nn.utils.get_total_norm(gradients)
        fine = fine & torch.isfinite(norm.full_tensor() if isinstance(norm, DTensor) else norm)
    return (~fine).float()


def loss_terms(config: MAGEConfig, progress: float = 0.0) -> LossTerms:
    """Return the loss terms of a run; `progress` in [0, 1] is the share of the run that is done, for schedules."""
    start, end = config.uniform_legal_coef, config.uniform_legal_coef_end
    return LossTerms(
        policy=config.policy,
        kl_estimator=config.kl_estimator,
        normalise=config.normalise,
        longest=int(config.max_completion_length or 1),
        epsilon_low=config.epsilon,
        epsilon_high=config.epsilon if config.epsilon_high is None else config.epsilon_high,
        delta=config.delta,
        beta=config.beta,
        weigh_kl=config.use_bias_correction_kl,
        entropy_coef=config.entropy_coef,
        uniform_legal_coef=start if end is None else start + (end - start) * progress,
        correct_sampling=bool((config.use_vllm or config.rollout_ahead) and config.vllm_importance_sampling_correction),
        correction=config.vllm_importance_sampling_mode,
        correction_min=config.vllm_importance_sampling_clip_min,
        correction_max=config.vllm_importance_sampling_clip_max,
    )
