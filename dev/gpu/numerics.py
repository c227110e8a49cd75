"""Numerics of a device: models with random weights, the difference of bf16 and float32, the rate of a product."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mage_envs.trainer.config.model_shapes import ModelShape

if TYPE_CHECKING:
    import torch
    from transformers import Qwen3ForCausalLM

    from mage_envs.trainer.method.batch import Row


@dataclass(frozen=True)
class Precision:
    """Difference of one number format to float32, in nats per token."""

    name: str
    tokens: int
    mean: float
    largest: float


def random_model(size: ModelShape, device: str | torch.device = "cpu", seed: int = 0) -> Qwen3ForCausalLM:
    """Return a Qwen3 model with random float32 weights, which depend on the arguments only.

    Args:
        device: Device on which the weights are drawn.
    """
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=size.vocab,
        hidden_size=size.hidden,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.kv_heads,
        head_dim=size.head_dim,
        intermediate_size=size.intermediate,
        max_position_embeddings=32_768,
        tie_word_embeddings=size.tied,
        attention_dropout=0.0,
    )
    # Drawn on the device, which is faster than on the CPU. The fork keeps the caller's random state.
    with torch.random.fork_rng(), torch.device(device):
        torch.manual_seed(seed)
        model: Qwen3ForCausalLM = Qwen3ForCausalLM(config)  # type: ignore[no-untyped-call]
    model.train(False)
    return model


def random_rows(vocab: int, lengths: Sequence[int], seed: int = 0) -> list[Row]:
    """Return rows of random tokens. The second half of each row is trained.

    Args:
        lengths: Number of tokens of each row.
    """
    from mage_envs.trainer.method.batch import Row

    rng = np.random.default_rng(seed)
    rows = []
    for length in lengths:
        targets = np.arange(length // 2, length)
        weights = np.ones(len(targets), np.float32)
        ids = rng.integers(0, vocab, length)
        count = (len(targets),)
        rows.append(Row(ids=ids, targets=targets, advantages=weights, sampling=None, legal=(), lengths=count))
    return rows


def log_probabilities(model: Any, rows: Sequence[Row], device: torch.device) -> torch.Tensor:
    """Return log-probabilities (N,) of the trained tokens, computed by the trainer's collation and scores.

    Args:
        model: Causal language model.
        rows: Rows with N trained tokens in total.
    """
    import torch

    from mage_envs.trainer.method.batch import collate
    from mage_envs.trainer.method.loss import score_logits

    batch = collate(rows, 0, device)
    with torch.no_grad():
        output = model(
            input_ids=batch.ids, attention_mask=batch.attention, position_ids=batch.positions, use_cache=False
        )
        # The logits at a position score the next token, hence the column before the trained one.
        return score_logits(output.logits[batch.rows, batch.columns - 1], batch, 1.0, constrained=False).logps


def precision(size: ModelShape, device: torch.device, lengths: Sequence[int] = (512, 384, 256, 128)) -> list[Precision]:
    """Compare bf16 with float32 on the same weights and rows: by autocast, as in training, and with cast weights.

    Args:
        lengths: Number of tokens of each row.
    """
    import torch

    rows = random_rows(size.vocab, lengths)
    model: Any = random_model(size, device)
    exact = log_probabilities(model, rows, device)
    with torch.autocast(device.type, torch.bfloat16):
        log_probs = {"float32 weights, bf16 autocast": log_probabilities(model, rows, device)}
    # Last, because `to` changes the model in place.
    log_probs["bf16 weights"] = log_probabilities(model.to(torch.bfloat16), rows, device)
    gaps = {name: (values - exact).abs() for name, values in log_probs.items()}
    return [Precision(name, len(gap), float(gap.mean()), float(gap.max())) for name, gap in gaps.items()]


def matrix_rate(width: int, device: torch.device, rounds: int = 10) -> float:
    """Return floating-point operations per second of a product of random square matrices in bf16.

    Args:
        width: Rows and columns of the matrices.
        rounds: Number of timed products, whose median counts.
    """
    import torch

    draws = torch.Generator(device).manual_seed(0)
    left_matrix, right_matrix = (
        torch.randn(width, width, device=device, generator=draws).to(torch.bfloat16) for _ in range(2)
    )
    seconds = []
    # The first three products only warm up the device.
    for _ in range(rounds + 3):
        synchronize(device)
        start_time = time.perf_counter()
        left_matrix @ right_matrix
        synchronize(device)
        seconds.append(time.perf_counter() - start_time)
    # Each of the width^2 entries is a sum of `width` products: one multiplication and one addition per term.
    return 2 * width**3 / statistics.median(seconds[3:])


def token_operations(size: ModelShape, adapted: bool) -> int:
    """Return the floating-point operations per token of an update, counting only the matrix products of the layers.

    Each weight costs two in the forward pass, two for the gradient of its input and two for its own gradient. A frozen
    weight has no gradient of its own.
    """
    weights = size.layers * sum(inputs * outputs for inputs, outputs in size.products.values())
    return weights * (4 if adapted else 6)


def synchronize(device: torch.device) -> None:
    """Wait until the GPU has finished all submitted work. Does nothing if the device is a CPU."""
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize()
