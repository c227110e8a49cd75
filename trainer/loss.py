"""The policy loss as a sum over trained tokens; the caller divides by the update's token count.

Everything is flat, (N,), over the trained tokens of a micro-batch, so nothing masked can contribute.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from trainer.batch import MicroBatch
from trainer.config import MAGEConfig
from trainer.metrics import LARGEST_RATIO


class Scores(NamedTuple):
    """What the model says about the trained tokens, with gradient."""

    logps: torch.Tensor
    """(N,): log-probability of each token at the sampling temperature."""
    entropy: torch.Tensor
    """(N,)"""
    legal_cross_entropy: torch.Tensor | None = None
    """(M,): cross-entropy of the uniform distribution over the legal ids, at `legal_at`."""


@dataclass(frozen=True)
class LossTerms:
    """Coefficients of the loss."""

    epsilon_low: float = 0.2
    epsilon_high: float = 0.2
    delta: float | None = 3.0
    beta: float = 0.0
    weigh_kl: bool = False
    entropy_coef: float = 0.0
    uniform_legal_coef: float = 0.0
    correct_sampling: bool = False
    """Multiply by the truncated ratio of old to sampling probability (vLLM)."""
    correction_min: float | None = None
    correction_max: float | None = None

    @classmethod
    def from_config(cls, config: MAGEConfig, progress: float = 0.0) -> LossTerms:
        """`progress` in [0, 1] is how far the run has come, for scheduled coefficients."""
        start, end = config.uniform_legal_coef, config.uniform_legal_coef_end
        return cls(
            config.epsilon,
            config.epsilon if config.epsilon_high is None else config.epsilon_high,
            config.delta,
            config.beta,
            config.use_bias_correction_kl,
            config.entropy_coef,
            start if end is None else start + (end - start) * progress,
            config.use_vllm and config.vllm_importance_sampling_correction,
            config.vllm_importance_sampling_clip_min,
            config.vllm_importance_sampling_clip_max,
        )


def policy_loss(scores: Scores, batch: MicroBatch, terms: LossTerms) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The summed loss, and sums of what is logged (of `LARGEST_RATIO` the largest).

    PPO clip with dual clip (a ratio never counts above `delta`), k3 KL to the reference, entropy bonus, cross-entropy
    to uniform over the legal ids. Equal to TRL's `_compute_loss` (dapo) where both exist.
    """
    logps, advantages = scores.logps, batch.advantages
    old = logps.detach() if batch.old is None else batch.old
    ratio = torch.exp(logps - old)
    clipped = ratio.clamp(1 - terms.epsilon_low, 1 + terms.epsilon_high)
    bounded = ratio if terms.delta is None else ratio.clamp(max=terms.delta)
    loss = -torch.minimum(bounded * advantages, clipped * advantages)
    low = (ratio < 1 - terms.epsilon_low) & (advantages < 0)
    high = (ratio > 1 + terms.epsilon_high) & (advantages > 0)
    sums = {"clip_ratio/low": low.sum(), "clip_ratio/high": high.sum(), "clip_ratio/any": (low | high).sum()}
    if terms.correct_sampling and batch.sampling is not None:
        # A token that the sampler could not score (NaN) is not corrected.
        gap = torch.nan_to_num(old - batch.sampling, nan=0.0)
        correction = torch.exp(gap)
        truncated = correction.clamp(terms.correction_min, terms.correction_max)
        loss = loss * truncated
        sums["sampling/correction"] = correction.sum()  # 1 in expectation, whatever the sampler's weights are
        sums["sampling/log_abs"] = gap.abs().sum()
        sums["sampling/k3"] = (correction - gap - 1).sum()
        sums["sampling/truncated"] = (truncated != correction).sum()
        sums[LARGEST_RATIO] = correction.max() if len(correction) else torch.zeros_like(correction.sum())
    sums["loss/policy"] = loss.detach().sum()
    if terms.beta and batch.reference is not None:
        gap = batch.reference - logps
        kl = torch.exp(gap) - gap - 1
        kl = kl * ratio if terms.weigh_kl else kl
        loss = loss + terms.beta * kl
        sums["kl"] = kl.detach().sum()
    total = loss.sum() - terms.entropy_coef * scores.entropy.sum()
    if scores.legal_cross_entropy is not None:
        total = total + terms.uniform_legal_coef * scores.legal_cross_entropy.sum()
        sums["uniform_legal"] = scores.legal_cross_entropy.detach().sum()
    sums["entropy"] = scores.entropy.detach().sum()
    sums["ratio/log_abs"] = (logps.detach() - old).abs().sum()
    return total, sums


def score_logits(logits: torch.Tensor, batch: MicroBatch, temperature: float, constrained: bool) -> Scores:
    """Scores from the logits (N, V) that predict the trained tokens.

    With `constrained`, a token with legal ids was sampled among these, and is scored among them.
    """
    logits = logits.float() / temperature
    known = batch.legal_ids >= 0
    given = torch.where(known, batch.legal_ids, batch.legal_ids[:, :1])
    if constrained:
        blocked = torch.zeros_like(logits, dtype=torch.bool)
        blocked[batch.legal_at] = True
        blocked[batch.legal_at[:, None], given] = False
        logits = logits.masked_fill(blocked, torch.finfo(logits.dtype).min)
    logps = logits.log_softmax(-1)
    entropy = -(logps.exp() * logps).sum(-1)
    chosen = logps.gather(1, batch.ids[batch.rows, batch.columns][:, None])[:, 0]
    legal = logps[batch.legal_at].gather(1, given).masked_fill(~known, 0.0)
    return Scores(chosen, entropy, -legal.sum(1) / known.sum(1).clamp(min=1))
