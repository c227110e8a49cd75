"""Rollouts that are played while another one is trained on."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from mage_envs.core import Task
from mage_envs.trainer import Trajectory
from mage_envs.trainer.backends.cached import CopiedGenerator
from mage_envs.trainer.trl.rollout_player import AsyncRollout
from mage_envs.trainer.trl.updating import PolicyUpdates
from mage_envs.wrappers.rollout.loop import RolloutClock
from tests.interruptions import run_in_fork
from tests.trainer.runs.test_interruptions import as_rank, run_ranks
from tests.trainer.tiny_runs import make_config, make_trainer


def run(model: str, folder: Path, ahead: int, **changes: Any) -> tuple[list[list[Any]], list[dict[str, float]], Any]:
    """Return the samples of each rollout, the log lines of the first updates, and the trainer."""
    rollouts: list[list[Any]] = []

    def keep(_: Any, trajectories: list[Trajectory]) -> None:
        rollouts.append(
            [[(step.completion_ids, step.logprobs) for step in trajectory.steps] for trajectory in trajectories]
        )

    settings: dict[str, Any] = {"backend": "cached", "constrained": True, "max_rollouts": 3, "on_rollout_end": keep}
    trainer = make_trainer(model, folder, None, rollout_ahead=ahead, **(settings | changes))
    trainer.train()
    return rollouts, [log for log in trainer.state.log_history if "rollout" in log], trainer


def test_a_rollout_played_ahead_has_the_weights_before_the_updates(model_path: str, tmp_path: Path) -> None:
    synchronous, _, _ = run(model_path, tmp_path, 0, max_rollouts=2)
    ahead, logs, trainer = run(model_path, tmp_path, 1)
    still, _, _ = run(model_path, tmp_path, 0, learning_rate=0.0, max_rollouts=2)
    assert len(ahead) == 3
    assert ahead[0] == synchronous[0] == still[0]
    assert ahead[1] == still[1] != synchronous[1]  # as a model of the same weights plays it
    assert [log.get("rollout/staleness") for log in logs] == [None, 2.0, 2.0]
    assert logs[0]["sampling/log_abs"] < 1e-5 < 1e-3 < logs[1]["sampling/log_abs"]
    assert trainer.state.global_step == 6
    assert [thread for thread in threading.enumerate() if thread.name == "mage-ahead"] == []


def test_it_is_played_while_the_model_is_trained(model_path: str, tmp_path: Path, monkeypatch: Any) -> None:
    """The first update ends only after a reply of the next rollout; the run would hang if they took turns."""
    replied = threading.Event()
    generate, backward = CopiedGenerator.generate, PolicyUpdates.backward

    def telling(generator: Any, prompts: Any) -> Any:
        answers = generate(generator, prompts)
        if threading.current_thread().name == "mage-ahead":
            replied.set()
        return answers

    def waiting(trainer: Any, *arguments: Any) -> Any:
        assert replied.wait(60)
        return backward(trainer, *arguments)

    monkeypatch.setattr(CopiedGenerator, "generate", telling)
    monkeypatch.setattr(PolicyUpdates, "backward", waiting)
    run(model_path, tmp_path, 1, max_rollouts=2)


def test_an_evaluation_waits_for_it_and_leaves_it_alone(model_path: str, tmp_path: Path) -> None:
    tasks = [Task("mage/KuhnPoker-Meta-v0", "kuhn/rock", seed=seed) for seed in range(2)]
    plain, _, _ = run(model_path, tmp_path, 1)
    with_evaluation, _, trainer = run(model_path, tmp_path, 1, eval_tasks=tasks, eval_strategy="steps", eval_steps=1)
    assert with_evaluation == plain
    assert sum("eval_reward" in log for log in trainer.state.log_history) == 6


def test_an_error_of_the_thread_is_raised_in_its_caller() -> None:
    def fails(clock: RolloutClock, check: Callable[..., None]) -> list[Trajectory]:
        raise OSError("the engine is gone")

    ahead = AsyncRollout(1, 0, fails)
    with pytest.raises(OSError, match="the engine is gone"):
        ahead.result()


def test_one_that_is_given_up_ends_at_its_next_reply() -> None:
    began, returned = threading.Event(), threading.Event()

    def plays(clock: RolloutClock, check: Callable[..., None]) -> list[Trajectory]:
        began.set()
        try:
            while True:
                check(1, 2)
        finally:
            returned.set()

    ahead = AsyncRollout(1, 0, plays)
    assert began.wait(30)
    ahead.cancel()
    assert returned.is_set()


@pytest.mark.parametrize("changes", [{"backend": "trl"}, {"backend": "cached", "vllm_enable_sleep_mode": True}])
def test_a_sampler_without_weights_of_its_own_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="rollout_ahead=1 needs a sampler with weights of its own"):
        make_config(tmp_path, rollout_ahead=1, **changes)


def in_process(model: str, folder: Path, ranks: Sequence[str] = ()) -> None:
    """Three rollouts, two of them played ahead; the first rank keeps the weights and what all ranks sampled."""
    as_rank(ranks)
    changes = {"learning_rate": 1e-2, "adam_epsilon": 1e-3}  # Adam would divide the rounding of gradients by itself
    rollouts, logs, trainer = run(model, folder / "run", 1, **changes)
    trainer.write_model(folder / "model")
    if trainer.accelerator.is_main_process:
        sampled = [[[ids for ids, _ in steps] for steps in rollout] for rollout in rollouts]
        staleness = [log.get("rollout/staleness") for log in logs]
        report = {"sampled": sampled, "staleness": staleness, "processes": trainer.accelerator.num_processes}
        (folder / "told.json").write_text(json.dumps(report))


def test_two_processes_that_play_ahead_equal_one(model_path: str, tmp_path: Path) -> None:
    first_folder, second_folder = tmp_path / "one", tmp_path / "two"
    assert run_in_fork(partial(in_process, model_path, first_folder)) == 0
    assert run_ranks(partial(in_process, model_path, second_folder)) == [0, 0]
    one_process, two_processes = (
        json.loads((folder / "told.json").read_text()) for folder in (first_folder, second_folder)
    )
    assert (one_process.pop("processes"), two_processes.pop("processes")) == (1, 2)
    assert two_processes == one_process
    assert two_processes["staleness"] == [None, 2.0, 2.0]
    mine, theirs = (load_file(folder / "model" / "model.safetensors") for folder in (first_folder, second_folder))
    start = load_file(Path(model_path) / "model.safetensors")
    assert max(float((mine[name] - theirs[name]).abs().max()) for name in mine) < 1e-6
    assert max(float((mine[name] - start[name]).abs().max()) for name in mine) > 1e-3
