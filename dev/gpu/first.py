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
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dev.gpu.first_session import TINY, Measurement, Sizes
from dev.gpu.first_training import compare_trainers, learn_game, resume_run
from dev.gpu.numerics import random_model, random_rows
from mage_envs.trainer.config.model_shapes import KNOWN

if TYPE_CHECKING:
    import torch

    from mage_envs.trainer.method.batch import Row

PACKAGES = ("torch", "transformers", "trl", "accelerate", "peft", "datasets", "gymnasium", "numpy")
ROW_TOKENS = (512, 384, 256, 128, 97)
"""Lengths of the rows of the compared update. They differ, so that padding takes part."""
MICRO_BATCH_TOKENS = 1024
"""Smaller than the rows together, so that the gradient is a sum over micro-batches."""


def report_versions(session: Measurement) -> None:
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
        bf16: True to multiply matrices in bf16, as the trainer does under `bf16=True`.
    """
    import torch

    from mage_envs.trainer.method.batch import Update, collate, micro_batches
    from mage_envs.trainer.method.loss import LossTerms, policy_loss, score_logits

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


def compare_gradients(session: Measurement) -> None:
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
        start_time = time.perf_counter()
        gradient = update_gradient(model.float().to(device), rows, device, bf16)
        session.report(
            "gradient",
            device=str(device),
            format="float32 weights, bf16 autocast" if bf16 else "float32",
            weights=len(gradient),
            relative_error=float((gradient - exact).norm() / exact.norm()),
            largest_error=float((gradient - exact).abs().max() / exact.abs().max()),
            cosine=float(torch.dot(gradient, exact) / gradient.norm() / exact.norm()),
            seconds=round(time.perf_counter() - start_time, 2),
        )


@dataclass(frozen=True)
class MeasuredPart:
    """One part of the measurement."""

    run: Callable[[Measurement], None]
    deadline_s: int


PARTS = {
    "versions": MeasuredPart(report_versions, 20),
    "gradient": MeasuredPart(compare_gradients, 120),
    "learning": MeasuredPart(learn_game, 160),
    "resume": MeasuredPart(resume_run, 50),
    "speed": MeasuredPart(compare_trainers, 190),
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
    options = parser.parse_args(arguments)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import torch

    from mage_envs.trainer.backends.model_folder import quieten

    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch finds no CUDA device. Add --device cpu --tiny.")
    quieten()
    options.out.mkdir(parents=True, exist_ok=True)
    session = Measurement(
        device=torch.device(options.device), sizes=TINY if options.tiny else Sizes(), log=options.out / "first.jsonl"
    )
    failures = 0
    signal.signal(signal.SIGALRM, raise_timeout)
    for name in options.parts:
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
