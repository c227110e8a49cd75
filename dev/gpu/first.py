"""First minutes on a GPU: does the trainer compute the same there, how fast is it, and does something learn?

    python -m dev.gpu.first --out FOLDER
    python -m dev.gpu.first --out FOLDER --device cpu --tiny

Every result is one JSON line, printed and appended to FOLDER/first.jsonl as soon as it is known, so that a machine that
goes away leaves what was measured. The parts, in order of worth:

    versions   packages, the device, and whether `mage train --model words` would use it
    gradient   the gradient of one update on the CPU in float64, against float32 and bf16 on the device
    learning   a word-level transformer learns the ultimatum game: values by episode beside the exact lines
    resume     a run that is resumed from its checkpoint, against the unbroken run
    speed      seconds and memory of a step, beside TRL's GRPOTrainer, in a model of Qwen3-0.6B's shape

A part that fails, or exceeds its deadline, prints one line with its error, and the next part runs. The deadlines sum
to 540 seconds. Nothing is downloaded, and all weights are random. The second command runs the same code without a GPU,
with small sizes.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dev.gpu.numerics import random_model, random_rows, synchronize
from trainer.config.model_shapes import KNOWN

if TYPE_CHECKING:
    import torch

    from trainer.config.mage_config import MAGEConfig
    from trainer.method.batch import Row
    from trainer.trl.mage_trainer import MAGETrainer

PACKAGES = ("torch", "transformers", "trl", "accelerate", "peft", "datasets", "gymnasium", "numpy")
ROW_TOKENS = (512, 384, 256, 128, 97)
"""Lengths of the rows of the compared update. They differ, so that padding takes part."""
MICRO_BATCH_TOKENS = 1024
"""Smaller than the rows together, so that the gradient is a sum over micro-batches."""
LAST_ROLLOUTS = 10
"""Rollouts at each end of a training whose values are averaged."""
GAME = "Ultimatum"
EPISODES = 3


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Sizes of the parts."""

    shape: str = "Qwen/Qwen3-0.6B"
    """Key of `KNOWN`: the model of `gradient` and `speed`."""
    hidden: int = 512
    layers: int = 6
    heads: int = 8
    """The model of `learning`: 15.8 million weights."""
    learning_rate: float = 3e-4
    groups: int = 32
    rollouts: int = 150
    reply_tokens: int = 256
    speed_groups: int = 8
    speed_steps: int = 3
    repeats: int = 2
    """Times that the two trainers take turns."""


TINY = Sizes(
    shape="tiny",
    hidden=32,
    layers=1,
    heads=2,
    learning_rate=1e-3,
    groups=2,
    rollouts=4,
    reply_tokens=8,
    speed_groups=2,
    speed_steps=2,
    repeats=1,
)


@dataclass(kw_only=True)
class Session:
    """The device, the sizes, and the log of results."""

    device: torch.device
    sizes: Sizes
    log: Path
    started: float = field(default_factory=time.perf_counter)

    def report(self, part: str, **values: Any) -> None:
        """Print a result as a JSON line, and append it to the log."""
        line = json.dumps({"part": part, "at_s": round(time.perf_counter() - self.started, 1), **values})
        print(line, flush=True)
        with self.log.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    @property
    def on_cpu(self) -> bool:
        """Return True if the device is the CPU."""
        return self.device.type == "cpu"

    def release(self) -> None:
        """Free the memory of the models of the last part."""
        import torch

        # A trainer and its callbacks refer to each other, so only the garbage collector frees the model's memory.
        gc.collect()
        if not self.on_cpu:
            torch.cuda.empty_cache()


def report_versions(session: Session) -> None:
    """Report the packages and the device."""
    import torch

    device = "cpu" if session.on_cpu else torch.cuda.get_device_name()
    memory = None if session.on_cpu else round(torch.cuda.get_device_properties(0).total_memory / 2**30, 1)
    session.report(
        "versions",
        python=sys.version.split()[0],
        **{name: version(name) for name in PACKAGES},
        cuda=torch.version.cuda,
        device=device,
        device_gib=memory,
        cores=os.cpu_count(),
    )


# -- gradient --------------------------------------------------------------------------------------------------


def update_gradient(model: Any, rows: Sequence[Row], device: torch.device, bf16: bool) -> torch.Tensor:
    """Return the gradient (P,) of one update in float64 on the CPU, by the trainer's collation and loss.

    Args:
        model: Causal language model with P weights on the device.
        rows: Rows of the update.
        device: Device of the model.
        bf16: True to multiply matrices in bf16, as the trainer does under `bf16=True`.
    """
    import torch

    from trainer.method.batch import Update, collate, micro_batches
    from trainer.method.loss import LossTerms, policy_loss, score_logits

    batches, terms = micro_batches(rows, MICRO_BATCH_TOKENS), LossTerms(entropy_coef=0.001)
    trained = sum(len(row.targets) for row in rows)
    update = Update(batches=batches, tokens=trained, steps=len(rows), scored=trained)
    model.zero_grad()
    for micro_batch in batches:
        batch = collate(micro_batch, 0, device)
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            output = model(
                input_ids=batch.ids, attention_mask=batch.attention, position_ids=batch.positions, use_cache=False
            )
            scores = score_logits(output.logits[batch.rows, batch.columns - 1], batch, 1.0, constrained=False)
        # torch declares `backward` without types.
        loss: Any = policy_loss(scores, batch, terms)[0] / terms.denominator(update)
        loss.backward()
    gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
    return torch.cat([gradient.double().cpu().flatten() for gradient in gradients])


def compare_gradients(session: Session) -> None:
    """Report how far the device's gradients are from those of the CPU in float64, on the same weights and rows."""
    import torch

    shape, cpu = KNOWN[session.sizes.shape], torch.device("cpu")
    rows, rng = random_rows(shape.vocab, ROW_TOKENS), np.random.default_rng(1)
    for row in rows:
        row.advantages[:] = rng.normal(size=len(row.targets)).astype(np.float32)
    # Drawn on the CPU, so that all copies have the same weights.
    model: Any = random_model(shape)
    exact = update_gradient(model.double(), rows, cpu, bf16=False)
    tries = (
        [(cpu, False), (cpu, True)]
        if session.on_cpu
        else [(cpu, False), (session.device, False), (session.device, True)]
    )
    for device, bf16 in tries:
        started = time.perf_counter()
        gradient = update_gradient(model.float().to(device), rows, device, bf16)
        session.report(
            "gradient",
            device=str(device),
            format="float32 weights, bf16 autocast" if bf16 else "float32",
            weights=len(gradient),
            relative_error=float((gradient - exact).norm() / exact.norm()),
            largest_error=float((gradient - exact).abs().max() / exact.abs().max()),
            cosine=float(torch.dot(gradient, exact) / gradient.norm() / exact.norm()),
            seconds=round(time.perf_counter() - started, 2),
        )


# -- learning and resume ---------------------------------------------------------------------------------------


def words_config(session: Session, folder: Path, **changes: Any) -> MAGEConfig:
    """Return the settings of `mage train --model words` in the ultimatum game, on the session's device.

    Args:
        session: Device and sizes.
        folder: Output folder.
        changes: Fields that differ.
    """
    from trainer import MAGEConfig
    from trainer.config.presets import WORDS

    fields: dict[str, Any] = {**WORDS, "env_kwargs": json.loads(WORDS["env_kwargs"])}
    fields |= {
        "output_dir": str(folder),
        "env_id": f"mage/{GAME}-Meta-v0",
        "num_episodes": EPISODES,
        "groups_per_rollout": session.sizes.groups,
        "max_rollouts": session.sizes.rollouts,
        "learning_rate": session.sizes.learning_rate,
        "max_tokens_per_microbatch": 65_536,
        "use_cpu": session.on_cpu,
        "bf16": False,
        "disable_tqdm": True,
        "report_to": "none",
        "logging_strategy": "no",
    }
    return MAGEConfig(**fields | changes)


def save_word_model(session: Session, folder: Path, config: MAGEConfig) -> tuple[str, int]:
    """Save a word-level transformer with random weights for the run's game; return its folder and its weights' number.

    Args:
        session: Sizes of the model.
        folder: Folder to write.
        config: Settings of the run.
    """
    from mage_envs.text.words.vocabulary import vocabulary
    from trainer.backends.tiny import save_tiny, tiny_model, tiny_tokenizer
    from trainer.trl.setup import env_maker

    sizes = session.sizes
    tokenizer = tiny_tokenizer(vocabulary(env_maker(config)().get_wrapper_attr("game")))
    # The spread of the demo's model (.1 at 64 hidden values), scaled to the width.
    spread = 0.8 / sizes.hidden**0.5
    model = tiny_model(len(tokenizer), sizes.hidden, sizes.layers, sizes.heads, spread, max_positions=8192)
    return save_tiny(folder, model, tokenizer), sum(weight.numel() for weight in model.parameters())


def exact_lines() -> dict[str, list[float]]:
    """Return the exact values per episode against the game's default opponents."""
    from mage_envs.registry import make_game, settings_of
    from opponents.exact import headroom
    from opponents.pools import as_pool

    settings = settings_of(GAME)
    seat = settings.seat or "alternate"
    values = headroom(make_game(GAME), as_pool(settings.opponent), episodes=EPISODES, hands=1, seat=seat)
    lines = {"no memory": values.blind_per_episode, "best learner": values.per_episode["sum"]}
    return {name: [round(value, 4) for value in line] for name, line in lines.items()}


def learn_game(session: Session) -> None:
    """Train a word-level transformer from random weights, and report its values per episode, early and late."""
    from trainer import MAGETrainer

    values: list[np.ndarray] = []
    counts: list[int] = []

    def record_values(_: Any, trajectories: Sequence[Any]) -> None:
        counts.append(len(trajectories))
        values.append(np.mean([[episode.value for episode in t.episodes] for t in trajectories], axis=0))

    with tempfile.TemporaryDirectory() as scratch:
        config = words_config(session, Path(scratch) / "run")
        model, weights = save_word_model(session, Path(scratch) / "model", config)
        trainer = MAGETrainer(model, config, on_rollout_end=record_values)
        started = time.perf_counter()
        trainer.train()
        seconds = time.perf_counter() - started
    count = min(LAST_ROLLOUTS, len(values))
    early, late = np.mean(values[:count], axis=0), np.mean(values[-count:], axis=0)
    session.report(
        "learning",
        game=GAME,
        weights=weights,
        rollouts=len(values),
        meta_episodes=sum(counts),
        seconds=round(seconds, 1),
        first_rollouts=[round(float(value), 3) for value in early],
        last_rollouts=[round(float(value), 3) for value in late],
        exact=exact_lines(),
        device=str(trainer.accelerator.device),
    )


def weights_of(trainer: MAGETrainer) -> list[torch.Tensor]:
    """Return the weights of a trainer's model."""
    model: Any = trainer.model
    return list(model.parameters())


def resume_run(session: Session) -> None:
    """Report the largest difference of weights between an unbroken run and one that is resumed from a checkpoint."""
    from trainer import MAGETrainer

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        changes: dict[str, Any] = {
            "groups_per_rollout": 4,
            "max_rollouts": 4,
            "save_strategy": "steps",
            "save_steps": 8,
        }
        config = words_config(session, folder / "unbroken", **changes)
        model, _ = save_word_model(session, folder / "model", config)
        unbroken = MAGETrainer(model, config)
        unbroken.train()
        resumed = MAGETrainer(model, words_config(session, folder / "resumed", **changes))
        resumed.train(resume_from_checkpoint=str(folder / "unbroken" / "checkpoint-8"))
        pairs = zip(weights_of(unbroken), weights_of(resumed), strict=True)
        largest = max(float((left - right).detach().abs().max()) for left, right in pairs)
        session.report("resume", updates=resumed.state.global_step, largest_difference=largest)


# -- speed -----------------------------------------------------------------------------------------------------


def step_times(session: Session, train: Callable[[Any], None]) -> Iterator[tuple[str, Any]]:
    """Train, and yield the seconds of each step, the rate of reply tokens, and the peak memory.

    Args:
        session: Device and sizes.
        train: Trains with a callback.
    """
    import torch
    from transformers import TrainerCallback

    seconds: list[float] = []
    begun = 0.0

    class StepClock(TrainerCallback):
        """Measures the steps of a trainer, rollouts included."""

        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            nonlocal begun
            synchronize(session.device)
            begun = time.perf_counter()

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            synchronize(session.device)
            seconds.append(round(time.perf_counter() - begun, 3))

    if not session.on_cpu:
        torch.cuda.reset_peak_memory_stats()
    train(StepClock())
    calls = 8 * session.sizes.speed_groups
    yield "seconds_per_step", seconds
    yield "reply_tokens_per_s", round(calls * session.sizes.reply_tokens / min(seconds))
    yield "peak_gib", None if session.on_cpu else round(torch.cuda.max_memory_allocated() / 2**30, 2)


def compare_trainers(session: Session) -> None:
    """Report steps of MAGETrainer and of TRL's GRPOTrainer in turns, on the same model, prompt and reply length."""
    import gymnasium as gym
    from datasets import Dataset
    from transformers import PrinterCallback
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    from trainer import MAGEConfig, MAGETrainer
    from trainer.backends.tiny import byte_tokenizer, save_tiny

    sizes = session.sizes
    make_env = partial(
        gym.make,
        "mage/Ultimatum-Meta-v0",
        num_episodes=1,
        opponent="ultimatum/reserve:3",
        length_penalty=0.0,
        on_invalid="forfeit",
    )
    _, info = make_env().reset(seed=0)
    common: dict[str, Any] = {
        "max_completion_length": sizes.reply_tokens,
        "num_generations": 8,
        "beta": 0.0,
        "learning_rate": 1e-6,
        "report_to": "none",
        "save_strategy": "no",
        "logging_strategy": "no",
        "disable_tqdm": True,
        "use_cpu": session.on_cpu,
        "bf16": not session.on_cpu,
        "gradient_checkpointing": not session.on_cpu,
        "max_steps": sizes.speed_steps,
    }
    with tempfile.TemporaryDirectory() as scratch:
        model = save_tiny(Path(scratch) / "model", random_model(KNOWN[sizes.shape]), byte_tokenizer())

        def train_ours(clock: Any) -> None:
            config = MAGEConfig(
                output_dir=str(Path(scratch) / "ours"),
                groups_per_rollout=sizes.speed_groups,
                updates_per_rollout="1",
                advantage="grpo",
                **common,
            )
            MAGETrainer(model, config, make_env, callbacks=[clock]).train()

        def train_theirs(clock: Any) -> None:
            config = GRPOConfig(
                output_dir=str(Path(scratch) / "theirs"),
                per_device_train_batch_size=8 * sizes.speed_groups,
                **common,
            )
            prompts = [{"prompt": info["messages"]}] * (sizes.speed_groups * sizes.speed_steps)
            data = Dataset.from_list(prompts)
            trainer = GRPOTrainer(model, length_reward, config, train_dataset=data, callbacks=[clock])
            # Otherwise the callback would print the logs between the lines of results.
            trainer.remove_callback(PrinterCallback)
            trainer.train()

        for name, train in [("MAGETrainer", train_ours), ("GRPOTrainer", train_theirs)] * sizes.repeats:
            measured = dict(step_times(session, train))
            session.report(
                "speed", trainer=name, calls=8 * sizes.speed_groups, reply_tokens=sizes.reply_tokens, **measured
            )
            session.release()


def length_reward(completions: Sequence[Any], **_: Any) -> list[float | None]:
    """Return a reward that differs between replies, so that TRL's advantages are not all zero."""
    return [float(len(completion[-1]["content"]) % 7) for completion in completions]


@dataclass(frozen=True)
class Part:
    """One part of the measurement."""

    run: Callable[[Session], None]
    deadline_s: int


PARTS = {
    "versions": Part(report_versions, 20),
    "gradient": Part(compare_gradients, 120),
    "learning": Part(learn_game, 160),
    "resume": Part(resume_run, 50),
    "speed": Part(compare_trainers, 190),
}


def raise_timeout(*_: Any) -> None:
    """Raise TimeoutError; a handler of SIGALRM."""
    raise TimeoutError("the part exceeded its deadline")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts in order. Return 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m dev.gpu.first", description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="folder for first.jsonl")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="device (default: cuda)")
    parser.add_argument("--tiny", action="store_true", help="use small sizes, for a machine without a GPU")
    parser.add_argument(
        "--parts", nargs="+", choices=tuple(PARTS), default=list(PARTS), help="parts to run (default: all)"
    )
    chosen = parser.parse_args(arguments)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import torch

    from trainer.runs.quiet import quieten

    if chosen.device == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch finds no CUDA device. Add --device cpu --tiny.")
    quieten()
    chosen.out.mkdir(parents=True, exist_ok=True)
    session = Session(
        device=torch.device(chosen.device), sizes=TINY if chosen.tiny else Sizes(), log=chosen.out / "first.jsonl"
    )
    failures = 0
    signal.signal(signal.SIGALRM, raise_timeout)
    for name in chosen.parts:
        signal.alarm(PARTS[name].deadline_s)
        try:
            PARTS[name].run(session)
        # A part may fail in any library below it. The others must still be measured.
        except Exception as error:
            failures += 1
            reason = " ".join(str(error).split())[:300]
            session.report(name, failed=f"{type(error).__name__}: {reason}", trace=traceback.format_exc()[-700:])
        finally:
            signal.alarm(0)
        session.release()
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
