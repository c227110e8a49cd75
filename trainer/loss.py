"""The policy loss as a sum over trained tokens; the caller divides by the update's token count.

Everything is flat, (N,), over the trained tokens of a micro-batch, so nothing masked can contribute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch

from trainer.batch import MicroBatch, Update
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


@dataclass(frozen=True, kw_only=True)
class LossTerms:
    """What the loss is made of, and its coefficients."""

    policy: str = "ppo"
    """A key of `POLICIES`."""
    kl_estimator: str = "k3"
    """A key of `KL_ESTIMATORS`."""
    normalise: str = "tokens"
    """`tokens`: the mean over the update's tokens; `steps`: over its model calls, each a mean over its tokens; `none`:
    the sum over a call's tokens, divided by `longest` (Dr. GRPO), and the mean over calls."""
    longest: int = 1
    """Most tokens of a reply."""
    epsilon_low: float = 0.2
    epsilon_high: float = 0.2
    delta: float | None = 3.0
    beta: float = 0.0
    weigh_kl: bool = False
    entropy_coef: float = 0.0
    uniform_legal_coef: float = 0.0
    correct_sampling: bool = False
    """Weigh by the ratio of old to sampling probability (vLLM, rollouts played ahead)."""
    correction: str = "token_truncate"
    """Of `CORRECTIONS`: each token's ratio or that of its model call, cut at the bounds or 0 beyond them."""
    correction_min: float | None = None
    correction_max: float | None = None

    @classmethod
    def from_config(cls, config: MAGEConfig, progress: float = 0.0) -> LossTerms:
        """`progress` in [0, 1] is how far the run has come, for scheduled coefficients."""
        start, end = config.uniform_legal_coef, config.uniform_legal_coef_end
        return cls(
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
            correct_sampling=bool(
                (config.use_vllm or config.rollout_ahead) and config.vllm_importance_sampling_correction
            ),
            correction=config.vllm_importance_sampling_mode,
            correction_min=config.vllm_importance_sampling_clip_min,
            correction_max=config.vllm_importance_sampling_clip_max,
        )

    def denominator(self, update: Update) -> int:
        """What the summed loss of a whole update is divided by."""
        return {"tokens": update.tokens, "steps": update.steps, "none": update.steps * self.longest}[self.normalise]


def _ppo(ratio: torch.Tensor, logps: torch.Tensor, advantages: torch.Tensor, terms: LossTerms) -> torch.Tensor:
    clipped = ratio.clamp(1 - terms.epsilon_low, 1 + terms.epsilon_high)
    bounded = ratio if terms.delta is None else ratio.clamp(max=terms.delta)
    return -torch.minimum(bounded * advantages, clipped * advantages)


def _cispo(ratio: torch.Tensor, logps: torch.Tensor, advantages: torch.Tensor, terms: LossTerms) -> torch.Tensor:
    return -ratio.detach().clamp(max=1 + terms.epsilon_high) * advantages * logps


POLICIES: Mapping[str, Callable[[torch.Tensor, torch.Tensor, torch.Tensor, LossTerms], torch.Tensor]] = {
    "ppo": _ppo,  # Schulman et al. 2017, with the dual clip of Ye et al. 2020
    "gspo_step": _ppo,  # Zheng et al. 2025: the ratio of a model call is the geometric mean of its tokens' ratios
    "cispo": _cispo,  # MiniMax-M1, 2025: the ratio is clipped from above and weighs the gradient of every token
}


def _k2(gap: torch.Tensor) -> torch.Tensor:
    return gap.square() / 2


KL_ESTIMATORS: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    # The gradient of -gap is zero in expectation, so k1 has the gradient of k2.
    "k1": lambda gap: _k2(gap) + (-gap - _k2(gap)).detach(),
    "k2": _k2,
    "k3": lambda gap: torch.exp(gap) - gap - 1,
}
"""Of the KL to the reference, from its log-probability less the model's (Schulman 2020).

Expected value and gradient over the model's own samples, p the model and q the reference: k1 KL(p|q) and its gradient,
k2 a biased value and the gradient of KL(p|q), k3 KL(p|q) and the gradient of KL(q|p).
"""


def _step_sums(values: torch.Tensor, batch: MicroBatch) -> torch.Tensor:
    """(S,): the sum of (N,) values over the tokens of each model call."""
    return torch.zeros(len(batch.lengths), dtype=values.dtype, device=values.device).index_add(0, batch.steps, values)


def _step_means(values: torch.Tensor, batch: MicroBatch) -> torch.Tensor:
    """(N,): the mean of (N,) values over the tokens of each one's model call."""
    return (_step_sums(values, batch) / batch.lengths)[batch.steps]


def policy_loss(scores: Scores, batch: MicroBatch, terms: LossTerms) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The summed loss, and sums of what is logged (of `LARGEST_RATIO` the largest).

    The policy term (under `ppo` clipped, and dually: a ratio never counts above `delta`), KL to the reference, entropy
    bonus, cross-entropy to uniform over the legal ids. Equal to TRL's `_compute_loss` where both exist.
    """
    logps, advantages = scores.logps, batch.advantages
    old = logps.detach() if batch.old is None else batch.old
    change = logps - old
    ratio = torch.exp(_step_means(change, batch) if terms.policy == "gspo_step" else change)
    loss = POLICIES[terms.policy](ratio, logps, advantages, terms)
    low = (ratio < 1 - terms.epsilon_low) & (advantages < 0)
    high = (ratio > 1 + terms.epsilon_high) & (advantages > 0)
    sums = {"clip_ratio/low": low.sum(), "clip_ratio/high": high.sum(), "clip_ratio/any": (low | high).sum()}
    if terms.correct_sampling and batch.sampling is not None:
        # A token that the sampler could not score (NaN) is not corrected.
        gap = torch.nan_to_num(old - batch.sampling, nan=0.0)
        by_call = terms.correction.startswith("sequence")
        correction = torch.exp(_step_sums(gap, batch)[batch.steps] if by_call else gap)
        truncated = correction.clamp(terms.correction_min, terms.correction_max)
        if terms.correction.endswith("mask"):
            truncated = torch.where(truncated == correction, correction, 0.0)
        loss = loss * truncated
        sums["sampling/correction"] = correction.sum()  # 1 in expectation, whatever the sampler's weights are
        sums["sampling/log_abs"] = gap.abs().sum()
        sums["sampling/k3"] = (torch.exp(gap) - gap - 1).sum()
        sums["sampling/truncated"] = (truncated != correction).sum()
        sums[LARGEST_RATIO] = correction.max() if len(correction) else torch.zeros_like(correction.sum())
    sums["loss/policy"] = loss.detach().sum()
    if terms.beta and batch.reference is not None:
        kl = KL_ESTIMATORS[terms.kl_estimator](batch.reference - logps)
        kl = kl * ratio if terms.weigh_kl else kl
        loss = loss + terms.beta * kl
        sums["kl"] = kl.detach().sum()
    loss = loss - terms.entropy_coef * scores.entropy
    total = (loss / batch.lengths[batch.steps]).sum() if terms.normalise == "steps" else loss.sum()
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
