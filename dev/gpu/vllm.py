"""Check of the real vLLM, colocated: two updates of a tiny model with random weights by each backend that uses it.

    python -m dev.gpu.vllm

The check runs if `vllm` is installed (`make vllm` tries it without a GPU). Each backend runs in its own process. It
passes if vLLM's log-probabilities of the sampled tokens agree with the trainer's after every push of weights.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from peft import LoraConfig

    from mage_envs.trainer.config.mage_config import MAGEConfig

BACKENDS = ("trl", "vllm_stream")
TOLERANCE = 0.05
"""Upper limit of the mean |log p - log q| between trainer and vLLM. A mean ratio would be near 1 for any weights."""
MAX_LENGTH = 4096


def make_config(
    backend: str, folder: Path, *, use_vllm: bool = True, context: str = "conversation", **changes: Any
) -> MAGEConfig:
    """Return the settings of two rollouts with one update each.

    Args:
        folder: Output folder of the trainer.
        context: Context of the prompts. In a growing conversation, token ids must be the same from call to call.
        **changes: Further fields of `MAGEConfig`.
    """
    import torch

    from mage_envs.trainer import MAGEConfig

    return MAGEConfig(
        output_dir=str(folder),
        backend=backend,
        use_vllm=use_vllm,
        vllm_mode="colocate",
        vllm_max_model_length=MAX_LENGTH,
        vllm_gpu_memory_utilization=0.2,
        env_kwargs={"on_invalid": "forfeit"},
        memory="history",
        context=context,
        opponents="pool:kuhn/demo",
        groups_per_rollout=1,
        num_generations=4,
        max_rollouts=2,
        updates_per_rollout="1",
        max_completion_length=16,
        max_prompt_length=MAX_LENGTH - 16,
        # High, so that an update which vLLM did not receive changes the log-probabilities measurably.
        learning_rate=1e-2,
        beta=0.0,
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(),
        **changes,
    )


def start_model(folder: Path) -> str:
    """Save a byte-level model with random weights. Its heads have 64 dimensions, the minimum for vLLM."""
    from mage_envs.trainer.backends.tiny import byte_tokenizer, save_tiny, tiny_model

    tokenizer = byte_tokenizer()
    return save_tiny(folder, tiny_model(len(tokenizer), hidden=128, heads=2, max_positions=MAX_LENGTH), tokenizer)


def train(config: MAGEConfig, folder: Path, adapter: LoraConfig | None = None) -> list[dict[str, float]]:
    """Train the tiny model, or an adapter on it, and return the log of each update.

    Args:
        folder: Folder for the start model.
        adapter: Adapter to train, or None to train all weights.
    """
    from mage_envs.trainer import MAGETrainer

    start = start_model(folder / "start")
    trainer = MAGETrainer(start, config, peft_config=adapter)
    trainer.train()
    return [log for log in trainer.state.log_history if "time/update" in log and "grad_norm" in log]


def verdict(logs: Sequence[Mapping[str, float]]) -> str | None:
    """Return the error in a run's logs, or None if the run passes."""
    if len(logs) != 2:
        return f"{len(logs)} updates instead of 2"
    for number, log in enumerate(logs, start=1):
        if log["failures"] or log["retries"]:
            return f"{log['failures']:.0f} meta-episodes failed in rollout {number}"
        gap = log.get("sampling/log_abs")
        if gap is None:
            return "vLLM returned no log-probabilities"
        # "not <" instead of ">=", so that NaN fails, too.
        if not gap < TOLERANCE:
            return f"mean |log p - log q| to vLLM is {gap:.3f} in update {number}, not below {TOLERANCE}"
    return None


def check(backend: str) -> int:
    """Run one backend in this process and print one line. Return 1 if the check failed."""
    with tempfile.TemporaryDirectory() as folder:
        logs = train(make_config(backend, Path(folder)), Path(folder))
    wrong = verdict(logs)
    if wrong is not None:
        print(f"dev.gpu.vllm: {backend}: FAILED: {wrong}")
        return 1
    gaps = ", ".join(f"{log['sampling/log_abs']:.4f}" for log in logs)
    seconds = sum(log["time/generate"] for log in logs)
    print(f"dev.gpu.vllm: {backend}: 2 updates, mean |log p - log q| {gaps}, generation {seconds:.1f} s")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Check each backend in its own process. Return 0 if all pass or vLLM is not installed."""
    parser = argparse.ArgumentParser(prog="python -m dev.gpu.vllm", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--backend", choices=BACKENDS, help="backend to check in this process (default: all, one process each)"
    )
    options = parser.parse_args(arguments)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if importlib.util.find_spec("vllm") is None:
        print('dev.gpu.vllm: vllm is missing (pip install "mage-envs[vllm]"), so nothing was checked.')
        return 0
    if options.backend is not None:
        return check(options.backend)
    # One process per backend, because vLLM may hold GPU memory until its process ends.
    command = [sys.executable, "-m", "dev.gpu.vllm", "--backend"]
    return max(subprocess.run([*command, backend], check=False).returncode != 0 for backend in BACKENDS)


if __name__ == "__main__":
    raise SystemExit(main())
