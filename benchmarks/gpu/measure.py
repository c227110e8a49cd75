"""What a CUDA machine does with models of 0.6B and 4B size (random weights): precision, memory, tokens per second.

    python -m benchmarks.gpu --out benchmarks/results/gpu.md

Loads nothing from the network. A model of random weights plays no legal move, so its gradient comes from penalties and
the entropy bonus; what is measured is the cost of an update, not what it teaches. Beside the card's peak stands what
`mage-train --hardware --dry-run` would have said of the same run.
"""

from __future__ import annotations

import gc
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mage_commands import OneLineParser
from mage_envs.durable import write_atomically
from trainer.estimate import estimate
from trainer.hardware import hardware
from trainer.shapes import KNOWN, LINEAR, ModelShape

if TYPE_CHECKING:
    import torch
    from transformers import Qwen3ForCausalLM
    from trl.trainer.model_config import ModelConfig

    from trainer.batch import Row
    from trainer.mage_trainer import MAGETrainer
    from trainer.trajectory import Trajectory

UPDATES = 3
BUDGETS = (4096, 16_384)
"""Tokens per micro-batch whose peak memory is compared."""
SIZES = {"0.6B": "Qwen/Qwen3-0.6B", "4B": "Qwen/Qwen3-4B"}
ADAPTED = ("4B",)
"""Of these an adapter is trained, on bf16 weights as under `--hardware 1x80gb`; of the others all weights, float32."""


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

    trained: str
    budget: int
    updates: int
    generation_rate: float
    """Sampled tokens per second, median over the rollouts."""
    update_rate: float
    """Forwarded tokens per second of an update, its optimiser step included; median over the updates."""
    peak_bytes: int
    """Most memory held at once in an update; 0 without a GPU."""
    estimated_bytes: int
    """The same by the estimate of a dry run."""
    resting_bytes: int
    """Memory held after it: weights and the optimiser's state."""
    estimated_resting: int
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


def model_settings(adapted: bool) -> ModelConfig:
    """Number format and adapter, as flags of mage-train would say it."""
    from trl.trainer.model_config import ModelConfig

    if not adapted:
        return ModelConfig(dtype="float32")
    return ModelConfig(
        dtype="bfloat16", use_peft=True, lora_r=32, lora_alpha=64, lora_target_modules=[*LINEAR], lora_dropout=0.0
    )


def train_updates(
    size: ModelShape, device: torch.device, budget: int, load: Load, folder: Path, adapted: bool = False
) -> Cost:
    """Three rollouts of Kuhn Poker with one update each, every micro-batch within `budget` tokens."""
    from transformers import PrinterCallback, TrainerCallback

    class AfterStep(TrainerCallback):
        """Tells the meter that an update has ended."""

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            meter.update_ended()

    meter = Meter(device)
    chosen = model_settings(adapted)
    trainer = make_trainer(size, device, budget, load, folder, meter.rollout_ended, AfterStep(), chosen)
    needs = estimate(trainer.args, chosen, size, hardware("1x80gb"), steps=0)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    logs = [log for log in trainer.state.log_history if "time/generate" in log and "grad_norm" in log]
    sampling = [count / log["time/generate"] for count, log in zip(meter.sampled, logs, strict=True)]
    updating = [log["tokens/forwarded"] / spent for spent, log in zip(meter.seconds, logs, strict=True)]
    return Cost(
        trained="adapter on bf16 weights" if adapted else "all weights, float32",
        budget=budget,
        updates=len(updating),
        generation_rate=statistics.median(sampling),
        update_rate=statistics.median(updating),
        peak_bytes=meter.peak,
        estimated_bytes=needs.update,
        resting_bytes=meter.resting,
        estimated_resting=needs.weights + needs.optimiser,
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
    chosen: ModelConfig,
) -> MAGETrainer:
    """The trainer of a run: prose prompts, reflections, fresh prompts, TRL's own generation; one update a rollout."""
    import torch
    from trl.trainer.utils import get_peft_config

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
    model = random_model(size).to(getattr(torch, str(chosen.dtype)))
    for part in (model.config, model.generation_config):
        if part is not None:
            part.pad_token_id, part.eos_token_id = tokenizer.pad_token_id, tokenizer.eos_token_id
    return MAGETrainer(
        model,
        config,
        processing_class=tokenizer,
        peft_config=get_peft_config(chosen),
        on_rollout_end=on_rollout_end,
        callbacks=[callback],
    )


def train_under(
    budgets: Sequence[int], size: ModelShape, device: torch.device, load: Load, adapted: bool = False
) -> list[Cost]:
    """One run per budget, each from the same weights, the last one's memory given back."""
    import torch

    costs = []
    for budget in budgets:
        with tempfile.TemporaryDirectory() as folder:
            costs.append(train_updates(size, device, budget, load, Path(folder), adapted))
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
    return costs


# -- the table -------------------------------------------------------------------------------------------------


def table(machine: str, precisions: Sequence[Precision], costs: Mapping[str, Sequence[Cost]]) -> str:
    """Both tables, in Markdown; costs by the model's size."""
    lines = [
        f"# GPU: {machine}",
        "",
        "Models of Qwen3's sizes, random weights. By `python -m benchmarks.gpu`.",
        "",
        "Log-probabilities against float32, in nats per token, same weights and rows (0.6B):",
        "",
        "| | tokens | mean difference | largest |",
        "|---|---|---|---|",
    ]
    lines += [f"| {p.name} | {p.tokens} | {p.mean:.5f} | {p.largest:.5f} |" for p in precisions]
    lines += [
        "",
        f"{UPDATES} rollouts on Kuhn Poker, one update each, in GiB: the most that an update held, the same by the "
        "estimate of a dry run, and what was held after it (weights, optimiser):",
        "",
        "| model | tokens per micro-batch | updates | peak | estimated | estimate / peak | resting | estimated "
        "| generated tokens/s | updated tokens/s |",
        f"|{'---|' * 10}",
    ]
    lines += [cost_row(size, cost) for size, found in costs.items() for cost in found]
    return "\n".join(lines) + "\n"


def cost_row(size: str, cost: Cost) -> str:
    """A line of the second table. Where the estimate is below the peak, a run that a dry run lets pass may not fit."""
    counts = (cost.peak_bytes, cost.estimated_bytes, cost.resting_bytes, cost.estimated_resting)
    peak, estimated, resting, rested = (f"{count / 2**30:.2f}" for count in counts)
    share = f"{cost.estimated_bytes / cost.peak_bytes:.2f}" if cost.peak_bytes else "-"
    low = " (TOO LOW)" if cost.estimated_bytes < cost.peak_bytes else ""
    return (
        f"| {size}, {cost.trained} | {cost.budget} | {cost.updates} | {peak} | {estimated} | {share}{low} "
        f"| {resting} | {rested} | {cost.generation_rate:,.0f} | {cost.update_rate:,.0f} |"
    )


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
    parser = OneLineParser(prog="python -m benchmarks.gpu", description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the tables there (Markdown)")
    parser.add_argument("--sizes", nargs="+", choices=tuple(SIZES), default=list(SIZES), help="of the models (all)")
    chosen = parser.parse_args(arguments)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    machine = cuda_name()
    if machine is None:
        print("benchmarks.gpu: no CUDA device (or no trl) here, so nothing was measured.")
        return 0
    import torch

    from trainer.quiet import quieten

    quieten()
    device = torch.device("cuda")
    measured = precision(KNOWN[SIZES["0.6B"]], device)
    torch.cuda.empty_cache()
    costs = {size: train_under(BUDGETS, KNOWN[SIZES[size]], device, Load(), size in ADAPTED) for size in chosen.sizes}
    text = table(machine, measured, costs)
    print(text, end="")
    if chosen.out is not None:
        write_atomically(chosen.out, text)
    return 0
