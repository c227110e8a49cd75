"""What a device computes: models of random weights, how far bf16 is from float32, the rate of a matrix product."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from trainer.shapes import ModelShape

if TYPE_CHECKING:
    import torch
    from transformers import Qwen3ForCausalLM

    from trainer.batch import Row


@dataclass(frozen=True)
class Precision:
    """How far one way of computing is from float32, in nats per token."""

    name: str
    tokens: int
    mean: float
    largest: float


def random_model(size: ModelShape, device: str | torch.device = "cpu", seed: int = 0) -> Qwen3ForCausalLM:
    """A Qwen3 with random weights, float32, made on the device; a function of its arguments."""
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
    with torch.random.fork_rng(), torch.device(device):
        torch.manual_seed(seed)
        model: Qwen3ForCausalLM = Qwen3ForCausalLM(config)  # type: ignore[no-untyped-call]
    model.train(False)
    return model


def random_rows(vocab: int, lengths: Sequence[int], seed: int = 0) -> list[Row]:
    """Rows of random tokens, the second half of each trained."""
    from trainer.batch import Row

    rng = np.random.default_rng(seed)
    rows = []
    for length in lengths:
        targets = np.arange(length // 2, length)
        weights = np.ones(len(targets), np.float32)
        ids = rng.integers(0, vocab, length)
        one = (len(targets),)
        rows.append(Row(ids=ids, targets=targets, advantages=weights, sampling=None, legal=(), lengths=one))
    return rows


def log_probabilities(model: Any, rows: Sequence[Row], device: torch.device) -> torch.Tensor:
    """Log-probabilities (N,) of the trained tokens, through the trainer's collation and scores."""
    import torch

    from trainer.batch import collate
    from trainer.loss import score_logits

    batch = collate(rows, 0, device)
    with torch.no_grad():
        output = model(
            input_ids=batch.ids, attention_mask=batch.attention, position_ids=batch.positions, use_cache=False
        )
        return score_logits(output.logits[batch.rows, batch.columns - 1], batch, 1.0, constrained=False).logps


def precision(size: ModelShape, device: torch.device, lengths: Sequence[int] = (512, 384, 256, 128)) -> list[Precision]:
    """bf16 against float32 for the same weights and rows: autocast, as in training, and with the weights cast."""
    import torch

    rows = random_rows(size.vocab, lengths)
    model: Any = random_model(size, device)
    exact = log_probabilities(model, rows, device)
    with torch.autocast(device.type, torch.bfloat16):
        found = {"float32 weights, bf16 autocast": log_probabilities(model, rows, device)}
    found["bf16 weights"] = log_probabilities(model.to(torch.bfloat16), rows, device)
    gaps = {name: (values - exact).abs() for name, values in found.items()}
    return [Precision(name, len(gap), float(gap.mean()), float(gap.max())) for name, gap in gaps.items()]


def matrix_rate(width: int, device: torch.device, rounds: int = 10) -> float:
    """Floating-point operations per second of a product of random square matrices in bf16, median over the rounds."""
    import torch

    draws = torch.Generator(device).manual_seed(0)
    left, right = (torch.randn(width, width, device=device, generator=draws).to(torch.bfloat16) for _ in range(2))
    seconds = []
    for _ in range(rounds + 3):  # three to warm up
        synchronize(device)
        started = time.perf_counter()
        left @ right
        synchronize(device)
        seconds.append(time.perf_counter() - started)
    return 2 * width**3 / statistics.median(seconds[3:])


def token_operations(size: ModelShape, adapted: bool) -> int:
    """Floating-point operations that a token costs in an update, by the products of the layers alone: two per weight
    forwards, two for the gradient of its input and two for its own, which a frozen weight has none of."""
    weights = size.layers * sum(inputs * outputs for inputs, outputs in size.products.values())
    return weights * (4 if adapted else 6)


def synchronize(device: torch.device) -> None:
    """Waits until a GPU has done all that it was given."""
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize()
