"""One rank of the run that `test_mage_trainer.py` compares over process counts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from transformers import TrainerCallback

from mage_envs.core import Task
from mage_envs.trainer.trl import trl_compat
from tests.trainer.runs.test_interruptions import as_rank
from tests.trainer.tiny_runs import make_trainer


class Gradients(TrainerCallback):
    def __init__(self) -> None:
        self.kept: list[list[torch.Tensor]] = []

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        self.kept.append([p.grad.clone() for p in model.parameters() if p.grad is not None])


def main(model: str, out: str, ranks: Sequence[str] = ()) -> None:
    as_rank(ranks)
    gradients = Gradients()
    all_trajectories: list[Any] = []
    tasks = [Task("mage/KuhnPoker-Meta-v0", "kuhn/rock", seed=seed) for seed in range(3)]
    trainer = make_trainer(
        model,
        Path(out).parent / "runs",
        callbacks=[gradients],
        max_grad_norm=0.0,
        entropy_coef=0.01,
        beta=0.1,
        max_tokens_per_microbatch=40,
        optim="sgd",
        eval_tasks=tasks,
        per_device_eval_batch_size=1,
        max_rollouts=1,
        updates_per_rollout=4,
        on_rollout_end=lambda _, trajectories: all_trajectories.extend(trajectories),
    )
    trainer.train()
    metrics = trainer.evaluate()
    processes = trainer.accelerator.num_processes
    if trainer.accelerator.is_main_process:
        saved = {
            "gradients": gradients.kept,
            "losses": [log["loss"] for log in trainer.state.log_history if "loss" in log],
            "trajectories": [
                (t.group, t.member, t.opponent, [s.completion_ids for s in t.steps]) for t in all_trajectories
            ],
            "evaluated": {key: metrics[key] for key in ("eval_reward", "eval_steps", "eval_value/episode_1")},
            "processes": processes,
        }
        torch.save(saved, out)
    if processes > 1:
        collective(model, out)


def collective(model: str, out: str) -> None:
    """Generation in which all ranks must take part equally often, with equally many prompts."""
    counts: list[int] = []

    def generate(trainer: Any, prompts: list[list[int]], keys: Any) -> Any:
        replies = generate_ids(trainer, prompts, keys)
        counts.append(len(prompts))
        return replies

    generate_ids = trl_compat.generate_ids
    with (
        mock.patch.object(trl_compat, "is_collective", return_value=True),
        mock.patch.object(trl_compat, "generate_ids", generate),
    ):
        trainer = make_trainer(model, Path(out).parent / "runs", None, max_rollouts=1)
        trainer.train()
    lengths = trl_compat.gather_object([len(counts)])
    assert len(set(lengths)) == 1, lengths
