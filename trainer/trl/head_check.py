"""Check at start that the LM head that TRL fuses into a model scores it as the model's own logits do.

TRL finds a scale or a cap of the logits by names in the config. A head that computes more than a projection (an adapter
on it, a transform before it, a scale of another name) would train on wrong gradients without a sign.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

MAX_ERROR = {torch.float32: 1e-3, torch.float64: 1e-3}
"""Greatest relative error of the gradient by the type of the weights. A head that leaves out a scale is off by 1."""
MAX_HALF_ERROR = 0.2
"""The same for weights with 16 bits or fewer, in which the two sums round differently."""
WATCHED = 8
"""Number of weights whose gradients are compared, evenly spread over the model."""


def gradient_of(model: torch.nn.Module, logps: torch.Tensor, weights: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the gradient of summed log-probabilities as one vector in float32. The model keeps no gradient."""
    model.zero_grad()
    torch.autograd.backward(logps.sum())
    parts = [torch.zeros_like(w) if w.grad is None else w.grad for w in weights]
    gradient = torch.cat([part.detach().float().flatten() for part in parts])
    model.zero_grad()
    return gradient


def heads_agree(model: torch.nn.Module, fused: Callable[[], torch.Tensor], plain: Callable[[], torch.Tensor]) -> bool:
    """Return True if both ways to score the same tokens have the same log-probabilities and gradients.

    Args:
        model: The model that is trained, on this device as a whole.
        fused: Function that returns the log-probabilities of N tokens by TRL's fused head, (N,).
        plain: Function that returns those of the model's own logits, (N,).
    """
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    weights = trained[:: max(1, len(trained) // WATCHED)] + trained[-1:]
    first_logps, second_logps = fused(), plain()
    max_error = MAX_ERROR.get(weights[0].dtype, MAX_HALF_ERROR)
    close = torch.allclose(first_logps.detach().float(), second_logps.detach().float(), rtol=max_error, atol=max_error)
    first_gradient = gradient_of(model, first_logps, weights)
    second_gradient = gradient_of(model, second_logps, weights)
    error = (first_gradient - second_gradient).norm() / second_gradient.norm().clamp(min=1e-12)
    return close and bool(error <= max_error)
