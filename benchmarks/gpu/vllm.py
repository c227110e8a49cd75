"""The real vLLM, colocated: two updates of a tiny model of random weights by each backend that uses it.

    python -m benchmarks.gpu.vllm

This runs where `vllm` is installed (`make vllm` tries it without a GPU). Each backend runs in a process of its own,
and passes when vLLM's log-probabilities of the sampled tokens agree with the trainer's after every push of weights.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mage_commands import OneLineParser

if TYPE_CHECKING:
    from peft import LoraConfig

    from trainer.config import MAGEConfig

BACKENDS = ("trl", "vllm_stream")
TOLERANCE = 0.05
"""Most mean |log p - log q| between the trainer and vLLM. A mean ratio would be near 1 under any weights."""
MAX_LENGTH = 4096


def make_config(
    backend: str, folder: Path, *, use_vllm: bool = True, context: str = "conversation", **changes: Any
) -> MAGEConfig:
    """Two rollouts of one update each; in one growing conversation ids must survive from call to call."""
    import torch

    from trainer import MAGEConfig

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
        learning_rate=1e-2,
        beta=0.0,
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(),
        **changes,
    )


def start_model(folder: Path) -> str:
    """A byte-level model of random weights with heads of 64, the smallest that vLLM takes."""
    from trainer.tiny import byte_tokenizer, save_tiny, tiny_model

    tokenizer = byte_tokenizer()
    return save_tiny(folder, tiny_model(len(tokenizer), hidden=128, heads=2, max_positions=MAX_LENGTH), tokenizer)


def train(config: MAGEConfig, folder: Path, adapter: LoraConfig | None = None) -> list[dict[str, float]]:
    """Trains the tiny model, or an adapter of it; returns a log line per update."""
    from trainer import MAGETrainer

    start = start_model(folder / "start")
    trainer = MAGETrainer(start, config, peft_config=adapter)
    trainer.train()
    return [log for log in trainer.state.log_history if "time/update" in log and "grad_norm" in log]


def verdict(logs: Sequence[Mapping[str, float]]) -> str | None:
    """What is wrong with a run's log lines, None when nothing is."""
    if len(logs) != 2:
        return f"{len(logs)} updates instead of 2"
    for number, log in enumerate(logs, start=1):
        if log["failures"] or log["retries"]:
            return f"{log['failures']:.0f} meta-episodes failed in rollout {number}"
        gap = log.get("sampling/log_abs")
        if gap is None:
            return "vLLM gave no log-probabilities"
        if not gap < TOLERANCE:
            return f"mean |log p - log q| to vLLM is {gap:.3f} in update {number}, not below {TOLERANCE}"
    return None


def check(backend: str) -> int:
    """Runs one backend in this process and prints one line."""
    with tempfile.TemporaryDirectory() as folder:
        logs = train(make_config(backend, Path(folder)), Path(folder))
    wrong = verdict(logs)
    if wrong is not None:
        print(f"benchmarks.gpu.vllm: {backend}: FAILED: {wrong}")
        return 1
    gaps = ", ".join(f"{log['sampling/log_abs']:.4f}" for log in logs)
    seconds = sum(log["time/generate"] for log in logs)
    print(f"benchmarks.gpu.vllm: {backend}: 2 updates, mean |log p - log q| {gaps}, generation {seconds:.1f} s")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Checks the backends, one process each; 0 when all passed, or where there is no vLLM."""
    parser = OneLineParser(prog="python -m benchmarks.gpu.vllm", description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", choices=BACKENDS, help="this one only, in this process")
    chosen = parser.parse_args(arguments)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if importlib.util.find_spec("vllm") is None:
        print('benchmarks.gpu.vllm: vllm is missing (pip install "mage-envs[vllm]"), so nothing was checked.')
        return 0
    if chosen.backend is not None:
        return check(chosen.backend)
    command = [sys.executable, "-m", "benchmarks.gpu.vllm", "--backend"]
    return max(subprocess.run([*command, backend], check=False).returncode != 0 for backend in BACKENDS)


if __name__ == "__main__":
    raise SystemExit(main())
