"""SIGTERM within a rollout: it is thrown away at once, and the run that goes on ends with the same weights."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.interruptions import forked, run_ranks
from tests.trainer.test_interruptions import as_rank, weights_of
from tests.trainer.tiny_runs import cached, make_trainer, save_model
from trainer import MAGETrainer, trl_compat
from trainer.backends import trl_generator
from trainer.run_folder import checkpoints


@pytest.fixture(scope="module")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_model(tmp_path_factory.mktemp("model"))


def train(model: str, folder: Path, at: int = 0, ranks: Sequence[str] = (), **settings: Any) -> MAGETrainer:
    """A run of two rollouts, or what is left of it. In its call number `at` of the model it gets SIGTERM; an answer to
    that call never comes."""
    calls, together = 0, settings.pop("together", False)

    def generator(trainer: MAGETrainer) -> Any:
        backend = cached(trainer) if ranks else trl_generator(trainer)
        generate = backend.generate

        def counted(prompts: Any) -> Any:
            nonlocal calls
            calls += 1
            answers = generate(prompts)
            if calls == at:
                os.kill(os.getpid(), signal.SIGTERM)
                if not together:
                    time.sleep(60)
            return answers

        backend.generate = counted
        return backend

    chosen: dict[str, Any] = {"save_strategy": "steps", "save_steps": 1, "updates_per_rollout": 1} | settings
    trainer = make_trainer(model, folder, generator, **chosen)
    if together:
        trl_compat.is_collective = lambda _: True
    before = signal.signal(signal.SIGTERM, trainer.preemption.ask)
    try:
        trainer.train(resume_from_checkpoint=bool(checkpoints(folder)) or None)
    finally:
        signal.signal(signal.SIGTERM, before)
    if not trainer.preemption.stopped:
        trainer.write_model(folder)
    return trainer


def stopped(model: str, folder: Path, at: int, steps: int, saving: int) -> None:
    trainer = train(model, folder, at, save_steps=saving)
    assert trainer.preemption.stopped
    assert trainer.state.global_step == steps
    assert checkpoints(folder)[0].name == f"checkpoint-{steps}"


def test_a_rollout_under_way_is_thrown_away_and_played_again(model_path: str, tmp_path: Path) -> None:
    folder = tmp_path / "stopped"  # all in forks, as a process that has trained cannot be forked
    assert forked(partial(train, model_path, tmp_path / "whole")) == 0
    for at, steps, saving in ((2, 0, 1), (2, 0, 1), (7, 1, 100)):  # twice in the first rollout
        assert forked(partial(stopped, model_path, folder, at, steps, saving)) == 0
    assert forked(partial(train, model_path, folder)) == 0
    assert weights_of(folder) == weights_of(tmp_path / "whole")
    assert not (folder / "failures.jsonl").exists()


def rank(model: str, folder: Path, at: int = 0, ranks: Sequence[str] = (), together: bool = False) -> None:
    """One of two, of which the second gets SIGTERM."""
    as_rank(ranks)
    trainer = train(model, folder, at if ranks[0] == "1" else 0, ranks, together=together)
    assert trainer.preemption.stopped == bool(at)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("together", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_all_ranks_throw_it_away_where_one_is_asked_to(model_path: str, tmp_path: Path, together: bool) -> None:
    """Where they generate together, the one that is asked waits for the end of a call."""
    assert run_ranks(partial(rank, model_path, tmp_path / "whole", together=together)) == [0, 0]
    folder = tmp_path / "stopped"
    assert run_ranks(partial(rank, model_path, folder, at=7, together=together)) == [0, 0]
    assert [path.name for path in checkpoints(folder)] == ["checkpoint-1"]
    assert run_ranks(partial(rank, model_path, folder, together=together)) == [0, 0]
    assert weights_of(folder) == weights_of(tmp_path / "whole")
