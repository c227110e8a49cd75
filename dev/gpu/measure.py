"""Precision, memory and tokens per second of a GPU with models of 0.6B and 4B size (random weights).

    python -m dev.gpu --out benchmarks/results/gpu.md
    python -m dev.gpu --device cpu --sizes tiny

The benchmark downloads nothing. A model with random weights plays no legal move, so its gradient results from penalties
and the entropy bonus. The benchmark measures the cost of an update, not what the model learns. The table compares the
GPU's peak memory with the estimate of `mage train --hardware --dry-run` for the same run. The second command runs the
same code without a GPU.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.util
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dev.gpu.numerics import matrix_rate, precision, random_model, synchronize, token_operations
from mage_envs.files.atomic import write_atomically
from mage_envs.trainer.cli.estimate import estimate
from mage_envs.trainer.config.hardware import hardware
from mage_envs.trainer.config.model_shapes import KNOWN, LINEAR, ModelShape

if TYPE_CHECKING:
    import torch
    from trl.trainer.model_config import ModelConfig

    from mage_envs.trainer.config.mage_config import MAGEConfig
    from mage_envs.trainer.trl.mage_trainer import MAGETrainer
    from mage_envs.wrappers.rollout.trajectory import Trajectory

# Checked before the first measurement, so that a missing package is an error of one line.
NEEDED = ("torch", "transformers", "accelerate", "peft", "datasets", "trl")
UPDATES = 3
BUDGETS = (4096, 16_384)
"""Limits of tokens per micro-batch whose peak memory is compared."""


@dataclass(frozen=True)
class Load:
    """Size of a rollout: groups, members of a group, tokens of a reply."""

    groups: int = 2
    members: int = 8
    reply_tokens: int = 128
    style: str = "plain"
    """Style of the prompts."""


@dataclass(frozen=True)
class MeasuredModel:
    """Model that is measured, and how it is trained."""

    model: str
    """Key of `KNOWN`."""
    adapted: tuple[bool, ...]
    """Runs of the model. True: an adapter on bf16 weights, as with `--hardware 1x80gb`. False: all weights, float32."""
    load: Load = Load()
    width: int = 8192
    """Width of the square matrices whose product is timed."""


SIZES = {
    "tiny": MeasuredModel("tiny", (False, True), Load(1, 2, 4, "words"), 64),
    "0.6B": MeasuredModel("Qwen/Qwen3-0.6B", (False,)),
    "4B": MeasuredModel("Qwen/Qwen3-4B", (True,)),
}


@dataclass(frozen=True)
class Cost:
    """Cost of rollouts and updates with one token budget."""

    updates: int
    generation_rate: float
    """Sampled tokens per second, median over the rollouts."""
    update_rate: float
    """Forwarded tokens per second of an update including its optimiser step, median over the updates."""
    operations: float
    """Floating-point operations per second of an update, by `token_operations`."""
    peak_bytes: int
    """Peak memory of an update in bytes, 0 without a GPU."""
    estimated_bytes: int
    """Peak memory that a dry run estimates, in bytes."""
    resting_bytes: int
    """Memory after an update in bytes: weights and the optimiser's state."""
    estimated_resting: int
    """Memory after an update that a dry run estimates, in bytes."""
    losses: tuple[float, ...]


class Meter:
    """Time and memory of each update, from the end of its rollout to the end of the optimiser's step."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.sampled: list[int] = []
        self.seconds: list[float] = []
        self.peak = self.resting = 0
        self._started = 0.0

    def rollout_ended(self, trainer: MAGETrainer, trajectories: Sequence[Trajectory]) -> None:
        """Count the sampled tokens and start the clock; a callback for `on_rollout_end`."""
        import torch

        self.sampled.append(sum(len(step.completion_ids) for t in trajectories for step in t.steps))
        # Kernels run asynchronously. Without this, the rollout's last kernels would count as part of the update.
        synchronize(self.device)
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        self._started = time.perf_counter()

    def update_ended(self) -> None:
        """Record the time and memory of the update; called after the optimiser's step."""
        import torch

        # Before the clock is read, so that all kernels of the update have finished.
        synchronize(self.device)
        if self.device.type == "cuda":
            self.peak = max(self.peak, torch.cuda.max_memory_allocated())
            self.resting = torch.cuda.memory_allocated()
        self.seconds.append(time.perf_counter() - self._started)


def model_settings(adapted: bool) -> ModelConfig:
    """Return the number format and the adapter, as the flags of mage train would set them."""
    from trl.trainer.model_config import ModelConfig

    if not adapted:
        return ModelConfig(dtype="float32")
    return ModelConfig(
        dtype="bfloat16", use_peft=True, lora_r=32, lora_alpha=64, lora_target_modules=[*LINEAR], lora_dropout=0.0
    )


def train_updates(
    size: ModelShape, device: torch.device, budget: int, load: Load, folder: Path, adapted: bool = False
) -> Cost:
    """Play three rollouts of Kuhn Poker with one update each.

    Args:
        budget: Maximal number of tokens per micro-batch.
        folder: Output folder of the trainer.
        adapted: True to train an adapter on bf16 weights, False to train all weights in float32.

    Raises:
        torch.OutOfMemoryError: If the device has too little memory.
    """
    from transformers import PrinterCallback, TrainerCallback

    class AfterStep(TrainerCallback):
        """Callback that reports the end of an update to the meter."""

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            meter.update_ended()

    meter = Meter(device)
    model_config = model_settings(adapted)
    config = run_settings(device, budget, load, folder)
    trainer = make_trainer(size, device, config, model_config, meter.rollout_ended, AfterStep())
    needs = estimate(trainer.args, model_config, size, hardware("1x80gb"), steps=0)
    # Otherwise the callback would print the logs between the lines of the table.
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    # The trainer's last entry summarises the run and has no gradient norm.
    logs = [log for log in trainer.state.log_history if "time/generate" in log and "grad_norm" in log]
    sampling = [count / log["time/generate"] for count, log in zip(meter.sampled, logs, strict=True)]
    updating = [log["tokens/forwarded"] / spent for spent, log in zip(meter.seconds, logs, strict=True)]
    return Cost(
        updates=len(updating),
        generation_rate=statistics.median(sampling),
        update_rate=statistics.median(updating),
        operations=statistics.median(updating) * token_operations(size, adapted),
        peak_bytes=meter.peak,
        estimated_bytes=needs.update,
        resting_bytes=meter.resting,
        estimated_resting=needs.weights + needs.optimiser,
        losses=tuple(log["loss"] for log in logs),
    )


def run_settings(device: torch.device, budget: int, load: Load, folder: Path) -> MAGEConfig:
    """Return the settings: plain prompts, reflections, fresh prompts, TRL's own generation, one update per rollout.

    Number formats and gradient checkpointing are those of a GPU, also if the device is a CPU.

    Args:
        budget: Maximal number of tokens per micro-batch.
        folder: Output folder of the trainer.
    """
    from mage_envs.trainer import MAGEConfig

    return MAGEConfig(
        output_dir=str(folder),
        env_kwargs={"on_invalid": "forfeit", "style": load.style},
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
        bf16=True,
        gradient_checkpointing=True,
    )


def make_trainer(
    size: ModelShape,
    device: torch.device,
    config: MAGEConfig,
    model_config: ModelConfig,
    on_rollout_end: Callable[..., None],
    callback: Any,
) -> MAGETrainer:
    """Return the trainer of a run, with a model of random weights on the device.

    Args:
        model_config: Number format and adapter.
        on_rollout_end: Callback after each rollout.
        callback: Callback for the events of transformers' trainer.

    Raises:
        ValueError: If the model's vocabulary is smaller than that of the tokenizer.
    """
    import torch
    from trl.trainer.utils import get_peft_config

    from mage_envs.trainer import MAGETrainer
    from mage_envs.trainer.backends.tiny import byte_tokenizer

    tokenizer = byte_tokenizer()
    if len(tokenizer) > size.vocab:
        raise ValueError(f"vocab must be at least {len(tokenizer)}, the size of the byte tokenizer, got {size.vocab}.")
    model = random_model(size, device).to(getattr(torch, str(model_config.dtype)))
    # The configuration of a random model does not know the tokenizer's special tokens.
    for part in (model.config, model.generation_config):
        if part is not None:
            part.pad_token_id, part.eos_token_id = tokenizer.pad_token_id, tokenizer.eos_token_id
    return MAGETrainer(
        model,
        config,
        processing_class=tokenizer,
        peft_config=get_peft_config(model_config),
        on_rollout_end=on_rollout_end,
        callbacks=[callback],
    )


def train_under(
    budgets: Sequence[int], size: ModelShape, device: torch.device, load: Load, adapted: bool = False
) -> Iterator[Cost | None]:
    """Run the updates once per budget, each time from the same weights, and yield the costs.

    Args:
        budgets: Limits of tokens per micro-batch.
        adapted: True to train an adapter on bf16 weights, False to train all weights in float32.

    Returns:
        Generator of one cost per budget, None if the device had too little memory.
    """
    import torch

    for budget in budgets:
        cost = None
        with tempfile.TemporaryDirectory() as folder, suppress(torch.OutOfMemoryError):
            cost = train_updates(size, device, budget, load, Path(folder), adapted)
        # The trainer and its callbacks refer to each other, so only the garbage collector frees the model's memory.
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
        yield cost


# -- the table -------------------------------------------------------------------------------------------------


def tables(machine: str, names: Sequence[str], device: torch.device) -> Iterator[str]:
    """Yield the lines of both tables in Markdown, each as soon as it is measured.

    Args:
        machine: Name of the machine, for the title.
        names: Keys of `SIZES`.
    """
    first_size = SIZES[names[0]]
    yield f"# GPU: {machine}"
    yield ""
    yield "Models of Qwen3's sizes, random weights. By `python -m dev.gpu`."
    yield ""
    rate = matrix_rate(first_size.width, device)
    yield f"A product of random matrices of {first_size.width:,} rows and columns in bf16: {rate / 1e12:,.3g} TFLOP/s."
    yield ""
    yield f"Log-probabilities against float32, in nats per token, same weights and rows ({names[0]}):"
    yield ""
    yield "| | tokens | mean difference | largest |"
    yield "|---|---|---|---|"
    for row in precision(KNOWN[first_size.model], device):
        yield f"| {row.name} | {row.tokens} | {row.mean:.5f} | {row.largest:.5f} |"
    yield ""
    yield (
        f"{UPDATES} rollouts on Kuhn Poker, one update each, in GiB: the most that an update held, the same by the "
        "estimate of a dry run, and what was held after it (weights, optimiser). The share is of the product's rate, "
        "by the layers' products alone, without what checkpointing does again:"
    )
    yield ""
    yield (
        "| model | tokens per micro-batch | updates | peak | estimated | estimate / peak | resting | estimated "
        "| generated tokens/s | updated tokens/s | share |"
    )
    yield f"|{'---|' * 11}"
    for name in names:
        size = SIZES[name]
        for adapted in size.adapted:
            costs = train_under(BUDGETS, KNOWN[size.model], device, size.load, adapted)
            trained = "adapter on bf16 weights" if adapted else "all weights, float32"
            for budget, cost in zip(BUDGETS, costs, strict=True):
                row_start = f"| {name}, {trained} | {budget} |"
                yield row_start + (" out of memory |" if cost is None else cost_cells(cost, rate))


def cost_cells(cost: Cost, rate: float) -> str:
    """Return the measured cells of a line of the second table.

    If the estimate is below the peak, a run that passes a dry run may still run out of memory. The cell then says so.
    """
    counts = (cost.peak_bytes, cost.estimated_bytes, cost.resting_bytes, cost.estimated_resting)
    peak, estimated, resting, rested = (f"{count / 2**30:.2f}" for count in counts)
    share = f"{cost.estimated_bytes / cost.peak_bytes:.2f}" if cost.peak_bytes else "-"
    low = " (TOO LOW)" if cost.estimated_bytes < cost.peak_bytes else ""
    return (
        f" {cost.updates} | {peak} | {estimated} | {share}{low} | {resting} | {rested} "
        f"| {cost.generation_rate:,.0f} | {cost.update_rate:,.0f} | {cost.operations / rate:.1%} |"
    )


def machine_name(device: torch.device) -> str:
    """Return the name of the device, with the versions of torch, transformers and trl."""
    import torch
    import transformers
    import trl

    versions = f"torch {torch.__version__}, transformers {transformers.__version__}, trl {trl.__version__}"
    return f"{torch.cuda.get_device_name() if device.type == 'cuda' else 'CPU'}, {versions}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print and write each line of the tables as soon as it is measured."""
    parser = argparse.ArgumentParser(prog="python -m dev.gpu", description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, metavar="FILE", help="file for the tables, as Markdown (default: none)")
    parser.add_argument("--sizes", nargs="+", choices=tuple(SIZES), default=["0.6B", "4B"], help="model sizes")
    parser.add_argument(
        "--device", choices=("cuda", "cpu"), default="cuda", help="device (default: cuda; cpu if there is no GPU)"
    )
    options = parser.parse_args(arguments)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        parser.error(f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing; install mage-envs[train].")
    try:
        # All packages may be present, but one of them may miss a dependency. This fails before any measurement.
        importlib.import_module("mage_envs.trainer.trl.mage_trainer")
    except ImportError as error:
        parser.error(f"{' '.join(str(error).split())}; install mage-envs[train].")
    import torch

    from mage_envs.trainer.backends.model_folder import quieten

    if options.device == "cuda" and not torch.cuda.is_available():
        print("dev.gpu: no CUDA device here, so nothing was measured; try --device cpu --sizes tiny.")
        return 0
    quieten()
    device, lines = torch.device(options.device), list[str]()
    for line in tables(machine_name(device), options.sizes, device):
        print(line, flush=True)
        lines.append(line + "\n")
        # Written after every line, so that a run that is stopped keeps its measurements.
        if options.out is not None:
            write_atomically(options.out, "".join(lines))
    return 0
