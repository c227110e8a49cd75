"""What a GPU does with models of 0.6B and 4B size (random weights): precision, memory, tokens per second.

    python -m benchmarks.gpu --out benchmarks/results/gpu.md
    python -m benchmarks.gpu --device cpu --sizes tiny

Loads nothing from the network. A model of random weights plays no legal move, so its gradient comes from penalties and
the entropy bonus; what is measured is the cost of an update, not what it teaches. Beside the card's peak stands what
`mage-train --hardware --dry-run` would have said of the same run. The second command tries the same code without a GPU.
"""

from __future__ import annotations

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

from benchmarks.gpu.numerics import matrix_rate, precision, random_model, synchronize, token_operations
from mage_commands import OneLineParser
from mage_envs.durable import write_atomically
from trainer.estimate import estimate
from trainer.hardware import hardware
from trainer.shapes import KNOWN, LINEAR, ModelShape

if TYPE_CHECKING:
    import torch
    from trl.trainer.model_config import ModelConfig

    from trainer.config import MAGEConfig
    from trainer.mage_trainer import MAGETrainer
    from trainer.trajectory import Trajectory

NEEDED = ("torch", "transformers", "accelerate", "peft", "datasets", "trl")
UPDATES = 3
BUDGETS = (4096, 16_384)
"""Tokens per micro-batch whose peak memory is compared."""


@dataclass(frozen=True)
class Load:
    """How much a rollout plays."""

    groups: int = 2
    members: int = 8
    reply_tokens: int = 128
    style: str = "prose"
    """Of the prompts."""


@dataclass(frozen=True)
class MeasuredModel:
    """A model, and how it is trained."""

    model: str
    """Of `KNOWN`."""
    adapted: tuple[bool, ...]
    """For each way: an adapter on bf16 weights, as under `--hardware 1x80gb`; or all weights, float32."""
    load: Load = Load()
    width: int = 8192
    """Of the square matrices whose product is timed."""


SIZES = {
    "tiny": MeasuredModel("tiny", (False, True), Load(1, 2, 4, "words"), 64),
    "0.6B": MeasuredModel("Qwen/Qwen3-0.6B", (False,)),
    "4B": MeasuredModel("Qwen/Qwen3-4B", (True,)),
}


@dataclass(frozen=True)
class Cost:
    """What rollouts and updates cost under one token budget."""

    updates: int
    generation_rate: float
    """Sampled tokens per second, median over the rollouts."""
    update_rate: float
    """Forwarded tokens per second of an update, its optimiser step included; median over the updates."""
    operations: float
    """Floating-point operations per second of an update, by `token_operations`."""
    peak_bytes: int
    """Most memory held at once in an update; 0 without a GPU."""
    estimated_bytes: int
    """The same by the estimate of a dry run."""
    resting_bytes: int
    """Memory held after it: weights and the optimiser's state."""
    estimated_resting: int
    losses: tuple[float, ...]


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
        synchronize(self.device)
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        self._started = time.perf_counter()

    def update_ended(self) -> None:
        """Once the optimiser has stepped."""
        import torch

        synchronize(self.device)
        if self.device.type == "cuda":
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
    config = run_settings(device, budget, load, folder)
    trainer = make_trainer(size, device, config, chosen, meter.rollout_ended, AfterStep())
    needs = estimate(trainer.args, chosen, size, hardware("1x80gb"), steps=0)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
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
    """Prose prompts, reflections, fresh prompts, TRL's own generation; one update a rollout.

    Number formats and checkpointing are those of a GPU, on a CPU as well.
    """
    from trainer import MAGEConfig

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
    chosen: ModelConfig,
    on_rollout_end: Callable[..., None],
    callback: Any,
) -> MAGETrainer:
    """The trainer of a run, its model made on the device."""
    import torch
    from trl.trainer.utils import get_peft_config

    from trainer import MAGETrainer
    from trainer.tiny import byte_tokenizer

    tokenizer = byte_tokenizer()
    if len(tokenizer) > size.vocab:
        raise ValueError(f"The byte tokenizer has {len(tokenizer)} ids, the model only {size.vocab}; raise vocab.")
    model = random_model(size, device).to(getattr(torch, str(chosen.dtype)))
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
) -> Iterator[Cost | None]:
    """One run per budget, each from the same weights, the last one's memory given back; None for one that had too
    little."""
    import torch

    for budget in budgets:
        cost = None
        with tempfile.TemporaryDirectory() as folder, suppress(torch.OutOfMemoryError):
            cost = train_updates(size, device, budget, load, Path(folder), adapted)
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
        yield cost


# -- the table -------------------------------------------------------------------------------------------------


def tables(machine: str, names: Sequence[str], device: torch.device) -> Iterator[str]:
    """The lines of both tables, in Markdown, each when it is known."""
    first = SIZES[names[0]]
    yield f"# GPU: {machine}"
    yield ""
    yield "Models of Qwen3's sizes, random weights. By `python -m benchmarks.gpu`."
    yield ""
    rate = matrix_rate(first.width, device)
    yield f"A product of random matrices of {first.width:,} rows and columns in bf16: {rate / 1e12:,.3g} TFLOP/s."
    yield ""
    yield f"Log-probabilities against float32, in nats per token, same weights and rows ({names[0]}):"
    yield ""
    yield "| | tokens | mean difference | largest |"
    yield "|---|---|---|---|"
    for one in precision(KNOWN[first.model], device):
        yield f"| {one.name} | {one.tokens} | {one.mean:.5f} | {one.largest:.5f} |"
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
                known = f"| {name}, {trained} | {budget} |"
                yield known + (" out of memory |" if cost is None else cost_cells(cost, rate))


def cost_cells(cost: Cost, rate: float) -> str:
    """The rest of a line of the second table. Where the estimate is below the peak, a run that a dry run lets pass may
    not fit."""
    counts = (cost.peak_bytes, cost.estimated_bytes, cost.resting_bytes, cost.estimated_resting)
    peak, estimated, resting, rested = (f"{count / 2**30:.2f}" for count in counts)
    share = f"{cost.estimated_bytes / cost.peak_bytes:.2f}" if cost.peak_bytes else "-"
    low = " (TOO LOW)" if cost.estimated_bytes < cost.peak_bytes else ""
    return (
        f" {cost.updates} | {peak} | {estimated} | {share}{low} | {resting} | {rested} "
        f"| {cost.generation_rate:,.0f} | {cost.update_rate:,.0f} | {cost.operations / rate:.1%} |"
    )


def machine_name(device: torch.device) -> str:
    """The device with the versions that drive it."""
    import torch
    import transformers
    import trl

    versions = f"torch {torch.__version__}, transformers {transformers.__version__}, trl {trl.__version__}"
    return f"{torch.cuda.get_device_name() if device.type == 'cuda' else 'CPU'}, {versions}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures; prints each line of the tables when it is known, and writes what there is of them."""
    parser = OneLineParser(prog="python -m benchmarks.gpu", description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the tables there (Markdown)")
    parser.add_argument("--sizes", nargs="+", choices=tuple(SIZES), default=["0.6B", "4B"], help="of the models")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu tries the same without a GPU")
    chosen = parser.parse_args(arguments)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        parser.error(f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing; install mage-envs[train].")
    try:
        importlib.import_module("trainer.mage_trainer")  # before anything is measured: a package may lack another
    except ImportError as error:
        parser.error(f"{' '.join(str(error).split())}; install mage-envs[train].")
    import torch

    from trainer.quiet import quieten

    if chosen.device == "cuda" and not torch.cuda.is_available():
        print("benchmarks.gpu: no CUDA device here, so nothing was measured; try --device cpu --sizes tiny.")
        return 0
    quieten()
    device, known = torch.device(chosen.device), list[str]()
    for line in tables(machine_name(device), chosen.sizes, device):
        print(line, flush=True)
        known.append(line + "\n")
        if chosen.out is not None:
            write_atomically(chosen.out, "".join(known))
    return 0
