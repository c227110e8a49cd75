"""A run killed anywhere resumes from a whole checkpoint and ends with the weights of one that was not killed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from peft import LoraConfig

from mage_envs.files.atomic import drafts_of
from mage_envs.opponents import League
from mage_envs.trainer.backends.play_settings import PlaySettings
from mage_envs.trainer.runs.run_folder import checkpoints, newest_checkpoint
from mage_envs.wrappers.rollout.resumable_jsonl import ResumableJsonl
from mage_envs.wrappers.rollout.training_log import METRICS
from tests.interruptions import KILLED, distinct, kill_at, points, run_in_fork, run_ranks
from tests.trainer.sharding import shard_on_cpu
from tests.trainer.tiny_runs import POOL, make_scripted_generator, make_trainer

CHANGES = ("write", "fsync", "rename", "replace")
EVERYTHING = (*CHANGES, "mkdir", "unlink", "rmdir")
RENAMES = ("rename", "replace")
FULL, LORA, LEAGUE, SHARDED = "full", "lora", "league", "sharded"
"""Kinds of runs: all weights, an adapter, a league of past selves frozen after each rollout, FSDP2 in processes."""
RUN: dict[str, Any] = {
    "save_strategy": "steps",
    "save_steps": 1,
    "save_total_limit": 2,
    "updates_per_rollout": 1,
    "groups_per_rollout": 1,
    "max_rollouts": 3,
}


def as_rank(ranks: Sequence[str]) -> None:
    """Makes this process one of several: rank, local rank, their numbers, the port of the first."""
    if ranks:
        names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_PORT")
        os.environ.update(zip(names, ranks, strict=True))
        os.environ["MASTER_ADDR"] = "127.0.0.1"


def train(model: str, folder: Path, kind: str = FULL, rollouts: int = 3, ranks: Sequence[str] = ()) -> None:
    """Start or resume a run and train to its end, as a supervisor would do again and again."""
    as_rank(ranks)
    changes = RUN | {"max_rollouts": rollouts}
    if kind == SHARDED:
        shard_on_cpu()
        changes["generator"] = make_scripted_generator
    if kind == LORA:
        changes["peft_config"] = LoraConfig(r=2, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    if kind == LEAGUE:
        folder.mkdir(exist_ok=True)
        os.chdir(folder)  # the population knows its past selves by their folders
        folder = Path()
        changes |= {"opponents": League(POOL, 1), "env_kwargs": {"style": "words"}, "groups_per_rollout": 4}
    trainer = make_trainer(model, folder, **changes)
    trainer.train(resume_from_checkpoint=bool(checkpoints(folder)) or None)
    trainer.write_model(folder)


def weights_of(folder: Path, kind: str = FULL) -> bytes:
    return (folder / ("adapter_model.safetensors" if kind == LORA else "model.safetensors")).read_bytes()


def population_of(folder: Path) -> Any:
    """Return the population in the newest checkpoint."""
    newest = checkpoints(folder)[0]
    progress = json.loads((newest / "trainer_state.json").read_text())["stateful_callbacks"]["RolloutProgress"]
    return progress["attributes"]["population"]


def selves_of(folder: Path) -> dict[str, bytes]:
    """The weights of the past selves, by their names."""
    return {path.name: weights_of(path) for path in sorted((folder / "league").glob("step-*"))}


def is_model(folder: Path) -> bool:
    """Return True if a reader could take the folder for a model."""
    return any((folder / name).exists() for name in ("config.json", "adapter_config.json", "mage.json"))


def state(folder: Path) -> tuple[tuple[str, bytes], ...]:
    """Return the state that the next process finds: all names, and the contents of the models and the log.

    Drafts are left out, because no reader opens them.
    """
    paths = [path for path in sorted(folder.rglob("*")) if ".partial" not in str(path.relative_to(folder))]
    return tuple((str(path.relative_to(folder)), _content(path)) for path in paths)


def _content(path: Path) -> bytes:
    if path.suffix == ".jsonl":  # their seconds differ, so only the end of the last line counts
        *whole_lines, last_line = path.read_bytes().split(b"\n")
        return f"{len(whole_lines)} {bool(last_line)}".encode()
    return path.read_bytes() if path.suffix == ".safetensors" else b""


def read_logged_steps(folder: Path) -> list[tuple[str, int]]:
    """The lines of the log: kind and updates before it."""
    return [(row["kind"], row["step"]) for row in ResumableJsonl(folder / METRICS).rows()]


def begin_run(model: str, folder: Path, kind: str = FULL) -> Path:
    """A run of two rollouts that has ended with its model, to be gone on with for a third."""
    assert run_in_fork(partial(train, model, folder, kind, 2)) == 0
    assert [path.name for path in checkpoints(folder)] == ["checkpoint-2", "checkpoint-1"]
    return folder


def sweep(model: str, tmp_path: Path, kinds: Sequence[str], kind: str = FULL, stride: int = 1) -> None:
    """Kills a run at the points of these kinds, at every one or every n-th."""
    start_folder = begin_run(model, tmp_path / "before", kind)
    shutil.copytree(start_folder, tmp_path / "whole")
    kill_points = points(partial(train, model, tmp_path / "whole", kind), tmp_path / "told")
    expected_weights = weights_of(tmp_path / "whole", kind)
    older = weights_of(start_folder, kind)
    assert expected_weights != older
    population, selves = population_of(tmp_path / "whole"), selves_of(tmp_path / "whole")
    if kind == LEAGUE:
        assert sorted(selves) == ["step-1", "step-2"]
        assert any("checkpoint:league/step-1" in names for names in population["payoffs"])
    gone_on = set()
    for number in distinct(kill_points, kinds)[::stride]:
        where = f"killed at point {number}, {kill_points[number - 1]}"
        folder = tmp_path / "killed"
        shutil.copytree(start_folder, folder)
        kill_at(partial(train, model, folder, kind), number)
        newest, passed = newest_checkpoint(folder)
        assert newest is not None, where
        assert newest.name in ("checkpoint-2", "checkpoint-3"), where
        assert passed == [], where
        if is_model(folder):
            assert weights_of(folder, kind) in (older, expected_weights), where
        if (folder / "mage.json").exists():
            PlaySettings.load(folder)
            assert is_model(folder), where
        for past in (folder / "league").glob("step-*"):
            assert not is_model(past) or weights_of(past) == selves[past.name], where
        if state(folder) in gone_on:  # the rest is a function of the state, and was seen
            shutil.rmtree(folder)
            continue
        gone_on.add(state(folder))
        assert run_in_fork(partial(train, model, folder, kind)) == 0, where
        assert weights_of(folder, kind) == expected_weights, where
        assert [path.name for path in checkpoints(folder)][:2] == ["checkpoint-3", "checkpoint-2"], where
        assert drafts_of(folder) == [], where
        assert population_of(folder) == population, where
        assert read_logged_steps(folder) == read_logged_steps(tmp_path / "whole"), where
        assert selves_of(folder) == selves, where
        assert list(folder.rglob(".*.partial")) == [], where
        shutil.rmtree(folder)
    assert len(gone_on) > 5 / stride


@pytest.mark.parametrize("stride", [9, pytest.param(3, marks=pytest.mark.more)])
def test_a_run_killed_anywhere_ends_with_the_same_weights(stride: int, model_path: str, tmp_path: Path) -> None:
    """At some writes, fsyncs and renames; `test_every_single_point` has them all."""
    sweep(model_path, tmp_path, CHANGES, stride=stride)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", [FULL, LORA, LEAGUE])
def test_every_single_point(model_path: str, tmp_path: Path, kind: str) -> None:
    sweep(model_path, tmp_path, EVERYTHING, kind)


@pytest.mark.more
def test_an_adapter_killed_anywhere_ends_with_the_same_weights(model_path: str, tmp_path: Path) -> None:
    sweep(model_path, tmp_path, RENAMES, LORA, stride=3)


@pytest.mark.more
def test_a_league_killed_anywhere_ends_with_the_same_weights_and_selves(model_path: str, tmp_path: Path) -> None:
    sweep(model_path, tmp_path, RENAMES, LEAGUE, stride=4)


@pytest.mark.more
def test_two_processes_killed_anywhere_end_with_the_same_weights(model_path: str, tmp_path: Path) -> None:
    """At some renames of the first rank, and while the second writes, which its random state is all of."""
    sweep_ranks(model_path, tmp_path, {0: (0, 1, 2, -1), 1: (0,)})


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_two_processes_killed_at_every_single_point(model_path: str, tmp_path: Path) -> None:
    sweep_ranks(model_path, tmp_path, {0: None, 1: None}, kinds=(CHANGES, CHANGES))


def sweep_ranks(
    model_path: str,
    tmp_path: Path,
    places: Mapping[int, Sequence[int] | None],
    kind: str = FULL,
    kinds: Sequence[Sequence[str]] = (RENAMES, ("write",)),
) -> None:
    """Kills the first rank and the second at points of `kinds`: at all (None), or at those in these places."""
    gone_on = set()
    start_folder = tmp_path / "before"
    assert run_ranks(partial(train, model_path, start_folder, kind, 2)) == [0, 0]
    expected_weights = None
    for rank in (0, 1):
        complete_run = tmp_path / f"whole-{rank}"
        shutil.copytree(start_folder, complete_run)
        assert run_ranks(partial(train, model_path, complete_run, kind), rank, report=tmp_path / f"told-{rank}") == [
            0,
            0,
        ]
        kill_points = (tmp_path / f"told-{rank}").read_text().splitlines()
        expected_weights = expected_weights or weights_of(complete_run)
        assert weights_of(complete_run) == expected_weights
        point_numbers = distinct(kill_points, kinds[rank])
        for number in point_numbers if places[rank] is None else [point_numbers[index] for index in places[rank] or ()]:
            where = f"rank {rank} killed at point {number}, {kill_points[number - 1]}"
            folder = tmp_path / "killed"
            shutil.copytree(start_folder, folder)
            assert run_ranks(partial(train, model_path, folder, kind), rank, number)[rank] == KILLED, where
            newest, passed = newest_checkpoint(folder)
            assert newest is not None, where
            assert passed == [], where
            if state(folder) in gone_on:  # the rest is a function of the state, and was seen
                shutil.rmtree(folder)
                continue
            gone_on.add(state(folder))
            assert run_ranks(partial(train, model_path, folder, kind)) == [0, 0], where
            assert weights_of(folder) == expected_weights, where
            assert drafts_of(folder) == [], where
            assert read_logged_steps(folder) == read_logged_steps(complete_run), where
            shutil.rmtree(folder)
