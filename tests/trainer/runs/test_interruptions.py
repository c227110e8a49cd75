"""A run killed anywhere goes on from a whole checkpoint and ends with the weights of one that was not killed."""

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
from tests.interruptions import KILLED, distinct, forked, killed, points, run_ranks
from tests.trainer.sharding import shard_on_cpu
from tests.trainer.tiny_runs import POOL, make_trainer, save_model, scripted

CHANGES = ("write", "fsync", "rename", "replace")
EVERYTHING = (*CHANGES, "mkdir", "unlink", "rmdir")
RENAMES = ("rename", "replace")
FULL, LORA, LEAGUE, SHARDED = "full", "lora", "league", "sharded"
"""What a run trains, or whom it plays: past selves that are frozen after each rollout, too; or FSDP2 in processes."""
RUN: dict[str, Any] = {
    "save_strategy": "steps",
    "save_steps": 1,
    "save_total_limit": 2,
    "updates_per_rollout": 1,
    "groups_per_rollout": 1,
    "max_rollouts": 3,
}


@pytest.fixture(scope="module")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_model(tmp_path_factory.mktemp("model"))


def as_rank(ranks: Sequence[str]) -> None:
    """Makes this process one of several: rank, local rank, their numbers, the port of the first."""
    if ranks:
        names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_PORT")
        os.environ.update(zip(names, ranks, strict=True))
        os.environ["MASTER_ADDR"] = "127.0.0.1"


def train(model: str, folder: Path, kind: str = FULL, rollouts: int = 3, ranks: Sequence[str] = ()) -> None:
    """Begins a run, or goes on with it, to its end; what a supervisor would start again and again."""
    as_rank(ranks)
    changes = RUN | {"max_rollouts": rollouts}
    if kind == SHARDED:
        shard_on_cpu()
        changes["generator"] = scripted
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
    """What the newest checkpoint knows of the opponents."""
    newest = checkpoints(folder)[0]
    held = json.loads((newest / "trainer_state.json").read_text())["stateful_callbacks"]["RolloutProgress"]
    return held["attributes"]["population"]


def selves_of(folder: Path) -> dict[str, bytes]:
    """The weights of the past selves, by their names."""
    return {path.name: weights_of(path) for path in sorted((folder / "league").glob("step-*"))}


def is_model(folder: Path) -> bool:
    """Whether anyone could take the folder for a model."""
    return any((folder / name).exists() for name in ("config.json", "adapter_config.json", "mage.json"))


def state(folder: Path) -> tuple[tuple[str, bytes], ...]:
    """What the next process finds: all names, and what the models and the log hold; drafts are not looked into by
    anyone."""
    found = [path for path in sorted(folder.rglob("*")) if ".partial" not in str(path.relative_to(folder))]
    return tuple((str(path.relative_to(folder)), _content(path)) for path in found)


def _content(path: Path) -> bytes:
    if path.suffix == ".jsonl":  # of seconds, which differ, only where they end
        *whole, last = path.read_bytes().split(b"\n")
        return f"{len(whole)} {bool(last)}".encode()
    return path.read_bytes() if path.suffix == ".safetensors" else b""


def logged(folder: Path) -> list[tuple[str, int]]:
    """The lines of the log: kind and updates before it."""
    return [(row["kind"], row["step"]) for row in ResumableJsonl(folder / METRICS).rows()]


def begun(model: str, folder: Path, kind: str = FULL) -> Path:
    """A run of two rollouts that has ended with its model, to be gone on with for a third."""
    assert forked(partial(train, model, folder, kind, 2)) == 0
    assert [path.name for path in checkpoints(folder)] == ["checkpoint-2", "checkpoint-1"]
    return folder


def sweep(model: str, tmp_path: Path, kinds: Sequence[str], kind: str = FULL, every: int = 1) -> None:
    """Kills a run at the points of these kinds, at every one or every n-th."""
    before = begun(model, tmp_path / "before", kind)
    shutil.copytree(before, tmp_path / "whole")
    found = points(partial(train, model, tmp_path / "whole", kind), tmp_path / "told")
    wanted = weights_of(tmp_path / "whole", kind)
    older = weights_of(before, kind)
    assert wanted != older
    population, selves = population_of(tmp_path / "whole"), selves_of(tmp_path / "whole")
    if kind == LEAGUE:
        assert sorted(selves) == ["step-1", "step-2"]
        assert any("checkpoint:league/step-1" in met for met in population["payoffs"])
    gone_on = set()
    for number in distinct(found, kinds)[::every]:
        where = f"killed at point {number}, {found[number - 1]}"
        folder = tmp_path / "killed"
        shutil.copytree(before, folder)
        killed(partial(train, model, folder, kind), number)
        newest, passed = newest_checkpoint(folder)
        assert newest is not None, where
        assert newest.name in ("checkpoint-2", "checkpoint-3"), where
        assert passed == [], where
        if is_model(folder):
            assert weights_of(folder, kind) in (older, wanted), where
        if (folder / "mage.json").exists():
            PlaySettings.load(folder)
            assert is_model(folder), where
        for past in (folder / "league").glob("step-*"):
            assert not is_model(past) or weights_of(past) == selves[past.name], where
        if state(folder) in gone_on:  # what follows is a function of it, and was seen
            shutil.rmtree(folder)
            continue
        gone_on.add(state(folder))
        assert forked(partial(train, model, folder, kind)) == 0, where
        assert weights_of(folder, kind) == wanted, where
        assert [path.name for path in checkpoints(folder)][:2] == ["checkpoint-3", "checkpoint-2"], where
        assert drafts_of(folder) == [], where
        assert population_of(folder) == population, where
        assert logged(folder) == logged(tmp_path / "whole"), where
        assert selves_of(folder) == selves, where
        assert list(folder.rglob(".*.partial")) == [], where
        shutil.rmtree(folder)
    assert len(gone_on) > 5 / every


def test_a_run_killed_anywhere_ends_with_the_same_weights(model_path: str, tmp_path: Path) -> None:
    """At every third write, fsync and rename; `test_every_single_point` has them all."""
    sweep(model_path, tmp_path, CHANGES, every=3)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", [FULL, LORA, LEAGUE])
def test_every_single_point(model_path: str, tmp_path: Path, kind: str) -> None:
    sweep(model_path, tmp_path, EVERYTHING, kind)


def test_an_adapter_killed_anywhere_ends_with_the_same_weights(model_path: str, tmp_path: Path) -> None:
    sweep(model_path, tmp_path, RENAMES, LORA, every=3)


def test_a_league_killed_anywhere_ends_with_the_same_weights_and_selves(model_path: str, tmp_path: Path) -> None:
    sweep(model_path, tmp_path, RENAMES, LEAGUE, every=4)


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
    before = tmp_path / "before"
    assert run_ranks(partial(train, model_path, before, kind, 2)) == [0, 0]
    wanted = None
    for rank in (0, 1):
        whole = tmp_path / f"whole-{rank}"
        shutil.copytree(before, whole)
        assert run_ranks(partial(train, model_path, whole, kind), rank, told=tmp_path / f"told-{rank}") == [0, 0]
        found = (tmp_path / f"told-{rank}").read_text().splitlines()
        wanted = wanted or weights_of(whole)
        assert weights_of(whole) == wanted
        chosen = distinct(found, kinds[rank])
        for number in chosen if places[rank] is None else [chosen[place] for place in places[rank] or ()]:
            where = f"rank {rank} killed at point {number}, {found[number - 1]}"
            folder = tmp_path / "killed"
            shutil.copytree(before, folder)
            assert run_ranks(partial(train, model_path, folder, kind), rank, number)[rank] == KILLED, where
            newest, passed = newest_checkpoint(folder)
            assert newest is not None, where
            assert passed == [], where
            if state(folder) in gone_on:  # what follows is a function of it, and was seen
                shutil.rmtree(folder)
                continue
            gone_on.add(state(folder))
            assert run_ranks(partial(train, model_path, folder, kind)) == [0, 0], where
            assert weights_of(folder) == wanted, where
            assert drafts_of(folder) == [], where
            assert logged(folder) == logged(whole), where
            shutil.rmtree(folder)
