"""The policy loss as a sum over trained tokens. The caller divides it by the denominator of the update.

Tensors are flat, (N,), over the trained tokens of a micro-batch, so a masked token cannot contribute. Further shapes:
S model calls, M one-token answers with known legal ids, L legal ids, V vocabulary entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from mage_envs.trainer.method.batch import MicroBatch, Update
from mage_envs.trainer.method.components import KL_ESTIMATORS, POLICY_LOSSES
from mage_envs.trainer.method.metrics import LARGEST_RATIO


class Scores(NamedTuple):
    """Log-probabilities and entropies of the trained tokens under the model, with gradient."""

    logps: torch.Tensor
    """(N,): log-probability of each token at the sampling temperature."""
    entropy: torch.Tensor
    """(N,): entropy of the distribution that predicts each token."""
    legal_cross_entropy: torch.Tensor | None = None
    """(M,): cross-entropy of the uniform distribution over the legal ids, at `legal_at`."""


@dataclass(frozen=True, kw_only=True)
class LossTerms:
    """Terms of the loss, and their coefficients."""

    policy: str = "ppo"
    """A registered policy loss, or `module:function`."""
    kl_estimator: str = "k3"
    """A registered estimator, or `module:function`."""
    normalise: str = "tokens"
    """Mean of the loss.

    `tokens`: over the tokens of the update. `steps`: over its model calls, each a mean over its tokens. `none`: over
    its model calls, each a sum over its tokens divided by `longest` (Dr. GRPO).
    """
    longest: int = 1
    """Reply limit in tokens."""
    epsilon_low: float = 0.2
    """Clip range of the ratio below 1."""
    epsilon_high: float = 0.2
    """Clip range of the ratio above 1."""
    delta: float | None = 3.0
    """Dual clip: bound of the ratio for negative advantages; None disables it."""
    beta: float = 0.0
    """Weight of the KL divergence to the reference model."""
    weigh_kl: bool = False
    """True to multiply the KL term by the ratio."""
    entropy_coef: float = 0.0
    """Weight of the entropy bonus."""
    uniform_legal_coef: float = 0.0
    """Weight of the cross-entropy to the uniform distribution over the legal ids."""
    correct_sampling: bool = False
    """True to weigh tokens by the ratio of old to sampling probability (vLLM, rollouts played ahead)."""
    correction: str = "token_truncate"
    """Ratio of a token or of its model call (`token_`, `sequence_`), clamped or set to 0 (`truncate`, `mask`)."""
    correction_min: float | None = None
    """Lower bound of that ratio; None disables it."""
    correction_max: float | None = None
    """Upper bound of that ratio; None disables it."""

    def denominator(self, update: Update) -> int:
        """Return the divisor of the summed loss of a whole update."""
        return {"tokens": update.tokens, "steps": update.steps, "none": update.steps * self.longest}[self.normalise]


def ppo(ratio: torch.Tensor, logps: torch.Tensor, advantages: torch.Tensor, terms: LossTerms) -> torch.Tensor:
    """Return the clipped loss of each token, (N,): Schulman et al. 2017, with the dual clip of Ye et al. 2020."""
    # -min(min(r, delta) * A, clip(r, 1 - eps_low, 1 + eps_high) * A). The bound delta is active only if A < 0.
    clipped = ratio.clamp(1 - terms.epsilon_low, 1 + terms.epsilon_high)
    bounded = ratio if terms.delta is None else ratio.clamp(max=terms.delta)
    return -torch.minimum(bounded * advantages, clipped * advantages)


def cispo(ratio: torch.Tensor, logps: torch.Tensor, advantages: torch.Tensor, terms: LossTerms) -> torch.Tensor:
    """Return the loss of each token, (N,), whose gradient the clipped ratio weighs (MiniMax-M1, 2025)."""
    # -sg(min(r, 1 + eps_high)) * A * log p. Unlike in PPO, a clipped token keeps its gradient.
    return -ratio.detach().clamp(max=1 + terms.epsilon_high) * advantages * logps


def gspo_step(ratio: torch.Tensor, logps: torch.Tensor, advantages: torch.Tensor, terms: LossTerms) -> torch.Tensor:
    """Return the clipped loss of each token, (N,), for ratios of whole model calls (Zheng et al. 2025)."""
    return ppo(ratio, logps, advantages, terms)


# GSPO: the ratio of a model call is the geometric mean of its tokens' ratios.
gspo_step.by_call = True  # type: ignore[attr-defined]


# Estimators of KL(p|q), with p the model and q the reference, from samples of p (Schulman 2020).


def k1(gap: torch.Tensor) -> torch.Tensor:
    """Return the estimate with the value of KL(p|q) and its gradient; `gap` is log q - log p, (N,)."""
    # The gradient of -gap is zero in expectation, so k1 has the gradient of k2.
    return k2(gap) + (-gap - k2(gap)).detach()


def k2(gap: torch.Tensor) -> torch.Tensor:
    """Return the estimate with a biased value and the gradient of KL(p|q); `gap` is log q - log p, (N,)."""
    return gap.square() / 2


def k3(gap: torch.Tensor) -> torch.Tensor:
    """Return the estimate with the value of KL(p|q) and the gradient of KL(q|p); `gap` is log q - log p, (N,)."""
    return torch.exp(gap) - gap - 1


def _step_sums(values: torch.Tensor, batch: MicroBatch) -> torch.Tensor:
    """Return the sum of (N,) values over the tokens of each model call, (S,)."""
    return torch.zeros(len(batch.lengths), dtype=values.dtype, device=values.device).index_add(0, batch.steps, values)


def _step_means(values: torch.Tensor, batch: MicroBatch) -> torch.Tensor:
    """Return the mean of (N,) values over the tokens of each model call, repeated for its tokens, (N,)."""
    return (_step_sums(values, batch) / batch.lengths)[batch.steps]


def policy_loss(scores: Scores, batch: MicroBatch, terms: LossTerms) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Compute the summed loss of a micro-batch: policy term, KL term, entropy bonus, and cross-entropy to uniform.

    It equals TRL's `_compute_loss` for all options that both support.

    Args:
        scores: Scores of the trained tokens, with gradient.
        batch: Micro-batch of N trained tokens.

    Returns:
        The loss, a scalar with gradient, and the sums of the logged quantities (for `LARGEST_RATIO`, the maximum).
    """
    # Ratio r = p / p_old, (N,). Without old log-probabilities this is the rollout's first update, where p_old = p and
    # r = 1, but the gradient of r is that of log p.
    logps, advantages = scores.logps, batch.advantages
    old = logps.detach() if batch.old is None else batch.old
    change = logps - old
    # GSPO per step: r = exp(mean over the call's tokens of log p - log p_old), the same for all its tokens.
    policy = POLICY_LOSSES.find(terms.policy)
    ratio = torch.exp(_step_means(change, batch) if getattr(policy, "by_call", False) else change)
    loss: torch.Tensor = policy(ratio, logps, advantages, terms)
    # Tokens whose gradient the PPO clip removes: below the range with A < 0, or above it with A > 0.
    low = (ratio < 1 - terms.epsilon_low) & (advantages < 0)
    high = (ratio > 1 + terms.epsilon_high) & (advantages > 0)
    sums = {"clip_ratio/low": low.sum(), "clip_ratio/high": high.sum(), "clip_ratio/any": (low | high).sum()}
    # Importance weight p_old / p_sampler, (N,), of each token or of its whole model call. It corrects a sampler with
    # other weights or numerics than the trainer's.
    if terms.correct_sampling and batch.sampling is not None:
        # A token without a log-probability of the sampler (NaN) gets the weight 1.
        gap = torch.nan_to_num(old - batch.sampling, nan=0.0)
        by_call = terms.correction.startswith("sequence")
        correction = torch.exp(_step_sums(gap, batch)[batch.steps] if by_call else gap)
        # `truncate` clamps the weight at the bounds. `mask` drops tokens beyond them.
        truncated = correction.clamp(terms.correction_min, terms.correction_max)
        if terms.correction.endswith("mask"):
            truncated = torch.where(truncated == correction, correction, 0.0)
        loss = loss * truncated
        # The expected weight is 1 for every sampler, so a deviation of the mean reveals noise or wrong probabilities.
        sums["sampling/correction"] = correction.sum()
        sums["sampling/log_abs"] = gap.abs().sum()
        sums["sampling/k3"] = (torch.exp(gap) - gap - 1).sum()
        sums["sampling/truncated"] = (truncated != correction).sum()
        sums[LARGEST_RATIO] = correction.max() if len(correction) else torch.zeros_like(correction.sum())
    sums["loss/policy"] = loss.detach().sum()
    # beta * KL(p | p_ref) per token, (N,).
    if terms.beta and batch.reference is not None:
        kl = KL_ESTIMATORS.find(terms.kl_estimator)(batch.reference - logps)
        kl = kl * ratio if terms.weigh_kl else kl
        loss = loss + terms.beta * kl
        sums["kl"] = kl.detach().sum()
    # Entropy bonus per token. Then the sum: `steps` divides each token by the length of its call, so that each model
    # call counts as one mean; `denominator` does the rest.
    loss = loss - terms.entropy_coef * scores.entropy
    total = (loss / batch.lengths[batch.steps]).sum() if terms.normalise == "steps" else loss.sum()
    # Cross-entropy to uniform over the legal ids, (M,). It grows without bound if a legal action becomes improbable,
    # which keeps legal actions explored.
    if scores.legal_cross_entropy is not None:
        total = total + terms.uniform_legal_coef * scores.legal_cross_entropy.sum()
        sums["uniform_legal"] = scores.legal_cross_entropy.detach().sum()
    sums["entropy"] = scores.entropy.detach().sum()
    sums["ratio/log_abs"] = (logps.detach() - old).abs().sum()
    return total, sums


def score_logits(logits: torch.Tensor, batch: MicroBatch, temperature: float, constrained: bool) -> Scores:
    """Compute the scores of the trained tokens from logits.

    Args:
        logits: (N, V) logits that predict the trained tokens.
        batch: Micro-batch of N trained tokens.
        temperature: Sampling temperature. Scores are those of the distribution that was sampled from.
        constrained: True if tokens with legal ids were sampled among these. Then they are scored among them, too.

    Returns:
        Log-probability, entropy and cross-entropy to uniform.
    """
    # float32, because a log-softmax over a large vocabulary in bf16 would make the ratio noisy.
    logits = logits.float() / temperature
    # (M, L): legal ids; padding repeats the first one, so that every index is valid.
    is_valid = batch.legal_ids >= 0
    padded_ids = torch.where(is_valid, batch.legal_ids, batch.legal_ids[:, :1])
    if constrained:
        # (N, V): blocks all but the legal ids of the constrained tokens. The minimum instead of -inf keeps the entropy
        # finite: p * log p would be 0 * -inf.
        blocked = torch.zeros_like(logits, dtype=torch.bool)
        blocked[batch.legal_at] = True
        blocked[batch.legal_at[:, None], padded_ids] = False
        logits = logits.masked_fill(blocked, torch.finfo(logits.dtype).min)
    logps = logits.log_softmax(-1)
    entropy = -(logps.exp() * logps).sum(-1)
    token_logps = logps.gather(1, batch.ids[batch.rows, batch.columns][:, None])[:, 0]
    # -1/L * sum over the legal ids of log p, (M,). Padding contributes 0, and the divisor counts real ids only.
    legal = logps[batch.legal_at].gather(1, padded_ids).masked_fill(~is_valid, 0.0)
    return Scores(token_logps, entropy, -legal.sum(1) / is_valid.sum(1).clamp(min=1))
