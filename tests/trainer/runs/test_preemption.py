"""SIGTERM within a rollout: it is thrown away at once, and the resumed run ends with the same weights."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from transformers import TrainerCallback

from mage_envs.benchmarks.evaluation.suites import panels
from mage_envs.benchmarks.evaluation.suites.panels import Panel
from mage_envs.trainer import MAGETrainer
from mage_envs.trainer.runs.run_folder import checkpoints
from mage_envs.trainer.trl import backend_registry, trl_compat
from mage_envs.wrappers.rollout.training_log import metric_rows
from tests.interruptions import run_in_fork, run_ranks
from tests.trainer.runs.test_interruptions import as_rank, weights_of
from tests.trainer.tiny_runs import make_cached_generator, make_trainer


def train(model: str, folder: Path, at: int = 0, ranks: Sequence[str] = (), **settings: Any) -> MAGETrainer:
    """Start or resume a run of two rollouts.

    In its call number `at` of the model it gets SIGTERM, and an answer to that call never comes.
    """
    calls, together = 0, settings.pop("together", False)
    evaluating, ahead = settings.pop("evaluating", False), settings.get("rollout_ahead", 0)

    def generator(trainer: MAGETrainer) -> Any:
        backend = (
            make_cached_generator(trainer)
            if ranks
            else backend_registry.make_cached_generator(trainer)
            if ahead
            else backend_registry.trl_generator(trainer)
        )
        generate = backend.generate

        def count_calls(prompts: Any) -> Any:
            nonlocal calls
            in_thread = threading.current_thread() is not threading.main_thread()
            counts = (
                trainer.control.should_evaluate if evaluating else in_thread if ahead else not trainer.evaluator.running
            )
            calls += counts
            answers = generate(prompts)
            if calls == at and counts:
                if ahead and ranks:
                    time.sleep(0.5)  # the rollout before is trained on by now, so that this one is waited for
                os.kill(os.getpid(), signal.SIGTERM)
                if not together and not ahead:
                    time.sleep(60)
            return answers

        backend.generate = count_calls
        return backend

    options: dict[str, Any] = {"save_strategy": "steps", "save_steps": 1, "updates_per_rollout": 1} | settings
    trainer = make_trainer(model, folder, generator, **options)
    if together:
        trl_compat.is_collective = lambda _: True
    handler_before = signal.signal(signal.SIGTERM, trainer.preemption.ask)
    try:
        trainer.train(resume_from_checkpoint=bool(checkpoints(folder)) or None)
    finally:
        signal.signal(signal.SIGTERM, handler_before)
    if not trainer.preemption.stopped:
        trainer.write_model(folder)
    return trainer


def check_stopped(model: str, folder: Path, at: int, steps: int, saving: int) -> None:
    trainer = train(model, folder, at, save_steps=saving)
    assert trainer.preemption.stopped
    assert trainer.state.global_step == steps
    assert checkpoints(folder)[0].name == f"checkpoint-{steps}"


def test_a_rollout_under_way_is_thrown_away_and_played_again(model_path: str, tmp_path: Path) -> None:
    folder = tmp_path / "stopped"  # all in forks, as a process that has trained cannot be forked
    assert run_in_fork(partial(train, model_path, tmp_path / "whole")) == 0
    for at, steps, saving in ((2, 0, 1), (2, 0, 1), (7, 1, 100)):  # twice in the first rollout
        assert run_in_fork(partial(check_stopped, model_path, folder, at, steps, saving)) == 0
    assert run_in_fork(partial(train, model_path, folder)) == 0
    assert weights_of(folder) == weights_of(tmp_path / "whole")
    assert not (folder / "failures.jsonl").exists()


OPPONENTS = {"kuhn/rock": 1.0, "kuhn/maniac": 1.0}
EVALUATED: dict[str, Any] = {"eval_panel": "kuhn-mini", "eval_every": 1, "groups_per_rollout": 1, "save_steps": 100}


@pytest.mark.parametrize("early_stop", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_an_evaluation_under_way_is_given_up_and_made_again(
    early_stop: int, model_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stop an evaluation after the first rollout; and after the last one, if no work is left or if it ends the run.

    It draws from torch's generators, as the next samples do.
    """
    settings = EVALUATED | {"early_stop": early_stop, "max_rollouts": 2 + early_stop}
    panel = Panel(env_id="mage/KuhnPoker-Meta-v0", opponents=OPPONENTS, seed=70, rows_per_cell=1, about="for a test")
    known_panels = panels._own_panels()
    monkeypatch.setattr(panels, "_own_panels", lambda: known_panels | {"kuhn-mini": panel})
    complete_run, folder = tmp_path / "whole", tmp_path / "stopped"
    assert run_in_fork(partial(train, model_path, complete_run, **settings)) == 0
    for steps in (1, 2):
        assert run_in_fork(partial(check_stopped_evaluating, model_path, folder, steps, settings)) == 0
    assert run_in_fork(partial(train, model_path, folder, **settings)) == 0
    assert weights_of(folder) == weights_of(complete_run)
    rows, expected_rows = (metric_rows(run_folder, "eval") for run_folder in (folder, complete_run))
    assert [row["step"] for row in rows] == [1, 2]
    assert rows == expected_rows


AHEAD: dict[str, Any] = {"rollout_ahead": 1, "backend": "cached", "constrained": True, "max_rollouts": 3}


def test_with_a_rollout_played_ahead_it_resumes_as_from_any_checkpoint(model_path: str, tmp_path: Path) -> None:
    """Throw the rollout ahead away, because the checkpoint of an unbroken run does not hold it either.

    The signal comes among the calls for the second rollout, which is played while the first one is trained on.
    """
    complete_run, folder = tmp_path / "whole", tmp_path / "stopped"
    assert run_in_fork(partial(train, model_path, complete_run, **AHEAD)) == 0
    assert run_in_fork(partial(check_stopped_ahead, model_path, folder)) == 0
    assert run_in_fork(partial(train, model_path, folder, **AHEAD)) == 0
    for name in ("checkpoint-2", "checkpoint-3"):
        shutil.rmtree(complete_run / name)
    assert run_in_fork(partial(train, model_path, complete_run, **AHEAD)) == 0
    assert weights_of(folder) == weights_of(complete_run)


def check_stopped_ahead(model: str, folder: Path) -> None:
    trainer = train(model, folder, 2, **AHEAD)
    assert trainer.preemption.stopped
    assert (trainer.state.global_step, trainer.progress.rollouts) == (1, 1)


def check_stopped_evaluating(model: str, folder: Path, steps: int, settings: dict[str, Any]) -> None:
    trainer = train(model, folder, 2, evaluating=True, **settings)
    assert trainer.preemption.stopped
    assert trainer.progress.evaluation_due
    assert (trainer.state.global_step, checkpoints(folder)[0].name) == (steps, f"checkpoint-{steps}")
    assert len(metric_rows(folder, "eval")) == steps - 1


class Asked(TrainerCallback):
    """Sends this process SIGTERM in the update after `step` others."""

    def __init__(self, step: int) -> None:
        self._step = step

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == self._step:
            os.kill(os.getpid(), signal.SIGTERM)


def rank(
    model: str,
    folder: Path,
    at: int = 0,
    among: int | None = None,
    steps: int = 0,
    ranks: Sequence[str] = (),
    **settings: Any,
) -> None:
    """One of two, of which the second gets SIGTERM: in a call of the model, or in the update after `among` others. Both
    then end after `steps` updates, without the evaluation that follows them."""
    as_rank(ranks)
    second = ranks[0] == "1"
    if among is not None and second:
        settings["callbacks"] = [Asked(among)]
    trainer = train(model, folder, at if second else 0, ranks, **settings)
    assert trainer.preemption.stopped == bool(steps)
    assert not steps or trainer.state.global_step == steps
    assert trainer.progress.evaluation_due == (among is not None or bool(at and settings.get("evaluating")))


@pytest.mark.timeout(240)
@pytest.mark.parametrize("together", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_all_ranks_throw_it_away_where_one_is_asked_to(
    model_path: str, tmp_path: Path, together: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the ranks generate together, the signalled rank waits for the end of a call. So it does among the updates."""
    panel = Panel(env_id="mage/KuhnPoker-Meta-v0", opponents=OPPONENTS, seed=70, rows_per_cell=1, about="for a test")
    known_panels = panels._own_panels()
    monkeypatch.setattr(panels, "_own_panels", lambda: known_panels | {"kuhn-mini": panel})
    complete_run, folder = tmp_path / "whole", tmp_path / "stopped"
    options = {**EVALUATED, "groups_per_rollout": 3, "updates_per_rollout": 2, "together": together}
    assert run_ranks(partial(rank, model_path, complete_run, **options)) == [0, 0]
    for steps, stop_options in ((2, {"at": 2, "evaluating": True}), (2, {"at": 3}), (4, {"among": 2})):
        assert run_ranks(partial(rank, model_path, folder, steps=steps, **stop_options, **options)) == [0, 0]
        assert checkpoints(folder)[0].name == f"checkpoint-{steps}"
    assert run_ranks(partial(rank, model_path, folder, **options)) == [0, 0]
    assert weights_of(folder) == weights_of(complete_run)
    assert metric_rows(folder, "eval") == metric_rows(complete_run, "eval")


def test_ranks_that_play_ahead_stop_together(model_path: str, tmp_path: Path) -> None:
    """Signal the second rank while it waits for its rollout ahead."""
    assert run_ranks(partial(rank, model_path, tmp_path, at=2, steps=1, **AHEAD)) == [0, 0]
    assert [path.name for path in checkpoints(tmp_path)] == ["checkpoint-1"]
