"""What a CUDA machine does with a model of 0.6B size (random weights): precision, memory, tokens per second.

    python -m benchmarks.gpu --out benchmarks/results/gpu.md

Takes under 8 minutes and loads nothing from the network. A model of random weights plays no legal move, so its
gradient comes from penalties and the entropy bonus; what is measured is the cost of an update, not what it teaches.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mage_envs.durable import write_atomically
from trainer.shapes import KNOWN, ModelShape

if TYPE_CHECKING:
    import torch
    from transformers import Qwen3ForCausalLM

    from trainer.batch import Row
    from trainer.mage_trainer import MAGETrainer
    from trainer.trajectory import Trajectory

UPDATES = 3
BUDGETS = (4096, 16_384)
"""Tokens per micro-batch whose peak memory is compared."""
QWEN3 = "Qwen/Qwen3-0.6B"


@dataclass(frozen=True)
class Load:
    """How much a rollout plays."""

    groups: int = 2
    members: int = 8
    reply_tokens: int = 128


@dataclass(frozen=True)
class Precision:
    """How far one way of computing is from float32, in nats per token."""

    name: str
    tokens: int
    mean: float
    largest: float


@dataclass(frozen=True)
class Cost:
    """What rollouts and updates cost under one token budget."""

    budget: int
    updates: int
    generation_rate: float
    """Sampled tokens per second, median over the rollouts."""
    update_rate: float
    """Forwarded tokens per second of an update, its optimiser step included; median over the updates."""
    peak_bytes: int
    """Most memory held at once in an update; 0 without a GPU."""
    resting_bytes: int
    """Memory held after it: weights and the optimiser's state."""
    losses: tuple[float, ...]


def random_model(size: ModelShape, seed: int = 0) -> Qwen3ForCausalLM:
    """A Qwen3 with random weights, float32, on the CPU; a function of its arguments."""
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
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model: Qwen3ForCausalLM = Qwen3ForCausalLM(config)  # type: ignore[no-untyped-call]
    model.train(False)
    return model


# -- precision -------------------------------------------------------------------------------------------------


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
    model: Any = random_model(size).to(device)  # type: ignore[arg-type]
    exact = log_probabilities(model, rows, device)
    with torch.autocast(device.type, torch.bfloat16):
        found = {"float32 weights, bf16 autocast": log_probabilities(model, rows, device)}
    found["bf16 weights"] = log_probabilities(model.to(torch.bfloat16), rows, device)
    gaps = {name: (values - exact).abs() for name, values in found.items()}
    return [Precision(name, len(gap), float(gap.mean()), float(gap.max())) for name, gap in gaps.items()]


# -- training --------------------------------------------------------------------------------------------------


class Meter:
    """Times and memory of each update: from the end of its rollout to the end of the optimiser's step."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.sampled: list[int] = []
        self.seconds: list[float] = []
        self.peak = self.resting = 0
        self._started = 0.0

    def rollout_ended(self, trainer: MAGETrainer, trajectories: Sequence[Trajectory]) -> None:
        """For `on_rollout_end`."""
        import torch

        self.sampled.append(sum(len(step.completion_ids) for t in trajectories for step in t.steps))
        if self.device.type == "cuda":
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        self._started = time.perf_counter()

    def update_ended(self) -> None:
        """Once the optimiser has stepped."""
        import torch

        if self.device.type == "cuda":
            torch.cuda.synchronize()
            self.peak = max(self.peak, torch.cuda.max_memory_allocated())
            self.resting = torch.cuda.memory_allocated()
        self.seconds.append(time.perf_counter() - self._started)


def train_updates(size: ModelShape, device: torch.device, budget: int, load: Load, folder: Path) -> Cost:
    """Three rollouts of Kuhn Poker with one update each, every micro-batch within `budget` tokens."""
    from transformers import PrinterCallback, TrainerCallback

    class AfterStep(TrainerCallback):
        """Tells the meter that an update has ended."""

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            meter.update_ended()

    meter = Meter(device)
    trainer = make_trainer(size, device, budget, load, folder, meter.rollout_ended, AfterStep())
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    logs = [log for log in trainer.state.log_history if "time/generate" in log and "grad_norm" in log]
    sampling = [count / log["time/generate"] for count, log in zip(meter.sampled, logs, strict=True)]
    updating = [log["tokens/forwarded"] / spent for spent, log in zip(meter.seconds, logs, strict=True)]
    return Cost(
        budget=budget,
        updates=len(updating),
        generation_rate=statistics.median(sampling),
        update_rate=statistics.median(updating),
        peak_bytes=meter.peak,
        resting_bytes=meter.resting,
        losses=tuple(log["loss"] for log in logs),
    )


def make_trainer(
    size: ModelShape,
    device: torch.device,
    budget: int,
    load: Load,
    folder: Path,
    on_rollout_end: Callable[..., None],
    callback: Any,
) -> MAGETrainer:
    """The trainer of a run: prose prompts, reflections, fresh prompts, TRL's own generation; one update a rollout."""
    from trainer import MAGEConfig, MAGETrainer
    from trainer.tiny import byte_tokenizer

    tokenizer = byte_tokenizer()
    if len(tokenizer) > size.vocab:
        raise ValueError(f"The byte tokenizer has {len(tokenizer)} ids, the model only {size.vocab}; raise vocab.")
    config = MAGEConfig(
        output_dir=str(folder),
        env_kwargs={"on_invalid": "forfeit"},
        opponents="pool:kuhn/demo",
        groups_per_rollout=load.groups,
        num_generations=load.members,
        max_rollouts=UPDATES,
        updates_per_rollout="1",
        max_completion_length=load.reply_tokens,
        max_tokens_per_microbatch=budget,
        learning_rate=1e-6,
        beta=0.0,
        entropy_coef=0.001,
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=device.type == "cpu",
    )
    model = random_model(size)
    for part in (model.config, model.generation_config):
        if part is not None:
            part.pad_token_id, part.eos_token_id = tokenizer.pad_token_id, tokenizer.eos_token_id
    return MAGETrainer(
        model,
        config,
        processing_class=tokenizer,
        on_rollout_end=on_rollout_end,
        callbacks=[callback],
    )


def train_under(budgets: Sequence[int], size: ModelShape, device: torch.device, load: Load) -> list[Cost]:
    """One run per budget, each from the same weights, the last one's memory given back."""
    import torch

    costs = []
    for budget in budgets:
        with tempfile.TemporaryDirectory() as folder:
            costs.append(train_updates(size, device, budget, load, Path(folder)))
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
    return costs


# -- the table -------------------------------------------------------------------------------------------------


def table(machine: str, precisions: Sequence[Precision], costs: Sequence[Cost]) -> str:
    """Both tables, in Markdown."""
    lines = [
        f"# GPU: {machine}",
        "",
        "Model of 0.6B size (Qwen3), random weights. By `python -m benchmarks.gpu`.",
        "",
        "Log-probabilities against float32, in nats per token, same weights and rows:",
        "",
        "| | tokens | mean difference | largest |",
        "|---|---|---|---|",
    ]
    lines += [f"| {p.name} | {p.tokens} | {p.mean:.5f} | {p.largest:.5f} |" for p in precisions]
    lines += [
        "",
        f"{UPDATES} rollouts on Kuhn Poker, one update each (peak: of the update; resting: weights, optimiser):",
        "",
        "| tokens per micro-batch | updates | peak GiB | resting GiB | generated tokens/s | updated tokens/s |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {c.budget} | {c.updates} | {c.peak_bytes / 2**30:.2f} | {c.resting_bytes / 2**30:.2f} "
        f"| {c.generation_rate:,.0f} | {c.update_rate:,.0f} |"
        for c in costs
    ]
    return "\n".join(lines) + "\n"


def cuda_name() -> str | None:
    """The CUDA device with the versions that drive it; None where there is none."""
    try:
        import torch
        import transformers
        import trl
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}, trl {trl.__version__}"
    return f"{torch.cuda.get_device_name()}, {versions}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the tables there (Markdown)")
    chosen = parser.parse_args(arguments)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    machine = cuda_name()
    if machine is None:
        print("benchmarks.gpu: no CUDA device (or no trl) here, so nothing was measured.")
        return 0
    import torch

    from trainer.console import quieten

    quieten()
    device = torch.device("cuda")
    measured = precision(KNOWN[QWEN3], device)
    torch.cuda.empty_cache()
    text = table(machine, measured, train_under(BUDGETS, KNOWN[QWEN3], device, Load()))
    print(text, end="")
    if chosen.out is not None:
        write_atomically(chosen.out, text)
    return 0
