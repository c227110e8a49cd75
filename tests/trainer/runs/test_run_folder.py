"""Checkpoints on disk: the newest sound one, damaged ones, rotation, models that are whole or absent."""

from __future__ import annotations

import errno
import importlib
import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed import distributed_c10d
from transformers import AutoModelForCausalLM, TrainerCallback

from mage_envs.cli import program
from mage_envs.files import manifest
from mage_envs.files.atomic import drafts_of, write_atomically
from mage_envs.files.manifest import verify_checkpoint
from mage_envs.trainer.runs.run_folder import checkpoints, finish_checkpoint, newest_checkpoint, place_model, rotate
from mage_envs.wrappers.rollout.generation_client import RunStopped
from tests.interruptions import distinct, kill_at, points, reserve_port, run_in_fork, run_ranks, start_fork, status
from tests.trainer.cli.test_cli import SMALL, run
from tests.trainer.runs.test_interruptions import as_rank
from tests.trainer.tiny_runs import make_trainer


def checkpoint(run: Path, step: int) -> Path:
    """A sound one of two files."""
    draft, target = run / "draft", run / f"checkpoint-{step}"
    (draft / "rank").mkdir(parents=True)
    (draft / "model.safetensors").write_bytes(bytes([step]) * 100)
    (draft / "rank" / "state.json").write_text("{}")
    finish_checkpoint(draft, target)
    return target


def truncate(folder: Path) -> None:
    os.truncate(folder / "model.safetensors", 50)


def flip(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"x" * 100)


def lose(folder: Path) -> None:
    (folder / "rank" / "state.json").unlink()


def remove_manifest(folder: Path) -> None:
    (folder / "manifest.json").unlink()


def garble_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_text('{"files": {"model')


DAMAGES = [
    (truncate, "model.safetensors has 50 bytes instead of 100"),
    (flip, "model.safetensors is not what was written"),
    (lose, "rank/state.json is missing"),
    (remove_manifest, "it has no manifest.json, so it was not finished (or written by another program)"),
    (garble_manifest, "its files cannot be read (Unterminated string starting at: line 1 column 12 (char 11))"),
]


@pytest.mark.parametrize(("damage", "reason"), DAMAGES)
def test_a_damaged_checkpoint_is_passed_over_in_one_line(damage: Any, reason: str, tmp_path: Path) -> None:
    sound = [checkpoint(tmp_path, step) for step in (9, 10, 100)]
    assert newest_checkpoint(tmp_path) == (sound[2], [])
    damage(sound[2])
    assert newest_checkpoint(tmp_path) == (sound[1], [f"{sound[2]} is passed over: {reason}."])
    assert verify_checkpoint(sound[2]) == reason
    second_checkpoint = checkpoint(tmp_path, 100)  # the run comes by there once more
    assert newest_checkpoint(tmp_path) == (second_checkpoint, [])
    assert drafts_of(tmp_path) == []


@pytest.mark.parametrize("damage", [truncate, None])
def test_a_kill_while_a_checkpoint_takes_the_place_of_another_leaves_a_sound_one(damage: Any, tmp_path: Path) -> None:
    """For a moment no checkpoint has that name. If the run is killed then, it resumes from the older one."""
    start_folder, run = tmp_path / "before", tmp_path / "run"
    older, newer = run / checkpoint(start_folder, 1).name, run / checkpoint(start_folder, 2).name
    if damage is not None:
        damage(start_folder / newer.name)
    shutil.copytree(start_folder, tmp_path / "counted")
    kill_points = points(partial(checkpoint, tmp_path / "counted", 2), tmp_path / "told")
    absent = 0
    for number in distinct(kill_points, ("write", "fsync", "rename", "replace")):
        shutil.copytree(start_folder, run)
        kill_at(partial(checkpoint, run, 2), number)
        newest, passed = newest_checkpoint(run)
        absent += not newer.exists()
        assert newest == (older if passed or not newer.exists() else newer), kill_points[number - 1]
        assert damage is not None or not passed, kill_points[number - 1]
        shutil.rmtree(run / "draft", ignore_errors=True)
        checkpoint(run, 2)
        assert newest_checkpoint(run) == (newer, [])
        assert drafts_of(run) == []
        shutil.rmtree(run)
    assert absent == 1


def test_rotation_keeps_the_newest_sound_ones_and_the_best(tmp_path: Path) -> None:
    steps = [checkpoint(tmp_path, step) for step in range(1, 7)]
    flip(steps[5])
    truncate(steps[3])
    rotate(tmp_path, 2)
    assert checkpoints(tmp_path) == [steps[5], steps[4], steps[3], steps[2]]  # 6 and 4 are damaged
    rotate(tmp_path, 1, best=steps[2])
    assert checkpoints(tmp_path) == [steps[5], steps[4], steps[3], steps[2]]
    rotate(tmp_path, 1)
    assert [path for path in checkpoints(tmp_path) if verify_checkpoint(path) is None] == [steps[4]]
    rotate(tmp_path, None)
    assert drafts_of(tmp_path) == []


def test_no_reader_sees_an_old_and_a_new_shard_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail each move once, in turn. The folder then holds no model, or all of one."""

    def draft(text: str, shards: int) -> Path:
        folder = tmp_path / "draft"
        folder.mkdir()
        for name in ("config.json", "mage.json", "model.safetensors.index.json"):
            (folder / name).write_text(text)
        for number in range(shards):
            (folder / f"model-{number}.safetensors").write_text(text)
        return folder

    def content(folder: Path) -> set[str]:
        texts = {path.read_text() for path in folder.iterdir() if path.name != "notes.txt"}
        return texts if (folder / "config.json").exists() or (folder / "mage.json").exists() else set()

    replace = Path.replace
    for failing in range(1, 5):
        folder = tmp_path / f"model-{failing}"
        place_model(draft("old", 3), folder)
        (folder / "notes.txt").write_text("mine")
        renames_left = failing

        def failing_replace(path: Path, target: Path) -> Path:
            nonlocal renames_left
            renames_left -= 1
            if not renames_left:
                raise OSError(errno.ENOSPC, "No space left on device")
            return replace(path, target)

        monkeypatch.setattr(Path, "replace", failing_replace)
        with pytest.raises(OSError, match="No space left"):
            place_model(draft("new", 2), folder)
        assert content(folder) in (set(), {"old"}, {"new"})
        monkeypatch.undo()
        for file in (tmp_path / "draft").glob("*"):
            file.unlink()
        (tmp_path / "draft").rmdir()
        place_model(draft("new", 2), folder)
        assert content(folder) == {"new"}
        assert not (folder / "model-2.safetensors").exists()
        assert (folder / "notes.txt").read_text() == "mine"


def test_a_text_is_written_whole_by_any_number_of_writers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new" / "file"
    write_atomically(path, "old")
    nested = []

    def fsync(handle: int) -> None:
        if not nested:  # another writer comes in between, as another process would
            nested.append(handle)
            write_atomically(path, "other")

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomically(path, b"mine")
    assert path.read_text() == "mine"
    monkeypatch.undo()

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, "lost")
    assert [file.name for file in path.parent.iterdir()] == ["file"]
    assert path.read_text() == "mine"


def test_a_full_disk_in_a_checkpoint_leaves_the_older_one(
    model_path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings: dict[str, Any] = {"save_strategy": "steps", "save_steps": 1, "updates_per_rollout": 1}
    trainer = make_trainer(model_path, tmp_path, max_rollouts=3, **settings)
    saves, save = [], torch.save

    def full(*args: Any, **kwargs: Any) -> None:
        saves.append(args[1])
        if len(saves) == 6:
            raise OSError(errno.ENOSPC, "No space left on device")
        save(*args, **kwargs)

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match="No space left on device"):
        trainer.train()
    monkeypatch.undo()
    assert [path.name for path in checkpoints(tmp_path)] == ["checkpoint-1"]
    assert drafts_of(tmp_path) == []
    with pytest.raises(ValueError, match="holds checkpoints; pass resume_from_checkpoint=True to continue"):
        make_trainer(model_path, tmp_path, **settings).train()
    flip(tmp_path / "checkpoint-1")
    with pytest.raises(ValueError, match="holds no sound checkpoint; start a run"), caplog.at_level(logging.WARNING):
        make_trainer(model_path, tmp_path, **settings).train(resume_from_checkpoint=True)
    assert "checkpoint-1 is passed over: model.safetensors has 100 bytes instead of" in caplog.text


def test_resume_says_what_it_passes_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ("--preset", "mage-kuhn", *SMALL, "--output_dir", str(tmp_path), "--save_steps", "1")
    assert run(*common, "--max_rollouts", "2") == 0
    flip(tmp_path / "checkpoint-4")
    capsys.readouterr()
    assert run(*common, "--max_rollouts", "2", "--resume") == 0
    captured = capsys.readouterr()
    assert "Finished after 4 updates" in captured.out
    lines = [line for line in captured.err.splitlines() if line.startswith("mage:")]
    assert lines[0].startswith(f"mage: {tmp_path / 'checkpoint-4'} is passed over: model.safetensors has 100")
    assert len(lines) == 1
    assert verify_checkpoint(tmp_path / "checkpoint-4") is None
    for folder in checkpoints(tmp_path):
        remove_manifest(folder)
    assert run(*common, "--resume") == 2
    assert "--resume finds no sound checkpoint in" in capsys.readouterr().err


class Signals(TrainerCallback):
    """Sends this process a signal in the first update of a rollout."""

    def __init__(self, *numbers: signal.Signals) -> None:
        self._numbers = numbers

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == 2:
            for number in self._numbers:
                os.kill(os.getpid(), number)


class ImportsLate(TrainerCallback):
    """Imports a module in the first update, in the middle of which Ctrl-C is pressed."""

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        importlib.import_module("imported_late")


def with_signals(monkeypatch: pytest.MonkeyPatch, *numbers: signal.Signals) -> None:
    from mage_envs.trainer.trl.mage_trainer import MAGETrainer

    begin = MAGETrainer.train

    def train(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.add_callback(Signals(*numbers))
        return begin(self, *args, **kwargs)

    monkeypatch.setattr(MAGETrainer, "train", train)


def test_sigterm_among_the_updates_on_a_rollout_saves_after_the_last_and_resumes_exactly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    common = ("--preset", "mage-kuhn", *SMALL, "--max_rollouts", "3", "--save_steps", "100", "--output_dir")
    assert run(*common, str(tmp_path / "whole")) == 0
    with_signals(monkeypatch, signal.SIGTERM)
    assert run(*common, str(tmp_path / "stopped")) == 143
    out = capsys.readouterr().out
    assert f"Stopped by SIGTERM after 4 updates, with a checkpoint in {tmp_path / 'stopped'}. Add --resume" in out
    monkeypatch.undo()
    assert [path.name for path in checkpoints(tmp_path / "stopped")] == ["checkpoint-4"]
    assert not (tmp_path / "stopped" / "config.json").exists()
    assert run(*common, str(tmp_path / "stopped"), "--resume") == 0
    whole_weights, stopped_weights = (
        (tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "stopped")
    )
    assert whole_weights == stopped_weights


def test_ctrl_c_while_training_imports_something_writes_the_model_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before training it would end the command at once."""
    from mage_envs.trainer.trl.mage_trainer import MAGETrainer

    (tmp_path / "imported_late.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    monkeypatch.syspath_prepend(tmp_path)
    begin, out = MAGETrainer.train, tmp_path / "out"

    def train(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.add_callback(ImportsLate())
        return begin(self, *args, **kwargs)

    def command() -> None:
        os._exit(program.mage())

    monkeypatch.setattr(MAGETrainer, "train", train)
    words = ("--preset", "mage-kuhn", *SMALL, "--max_rollouts", "3", "--save_strategy", "no", "--output_dir", str(out))
    monkeypatch.setattr(sys, "argv", ["mage", "train", *words])
    assert run_in_fork(command) == 130
    assert AutoModelForCausalLM.from_pretrained(out).num_parameters() > 0


def test_ctrl_c_writes_the_model_and_a_second_one_ends_at_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from mage_envs.trainer.trl.checkpoints import Checkpoints

    common = ("--preset", "mage-kuhn", *SMALL, "--max_rollouts", "3", "--save_strategy", "no", "--output_dir")

    def main(folder: str) -> None:
        os._exit(run(*common, str(tmp_path / folder)))

    with_signals(monkeypatch, signal.SIGINT)
    assert run_in_fork(lambda: main("once")) == 130
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "once").num_parameters() > 0

    def save(self: Any, *parts: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("it went on")

    monkeypatch.setattr(Checkpoints, "save_parts", save)
    assert run_in_fork(lambda: main("twice")) == 130
    assert "it went on" not in capfd.readouterr().err


def test_more_processes_than_accelerate_sees_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from mage_envs.trainer import MAGEConfig

    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(MAGEConfig, "world_size", property(lambda _: 1))
    with pytest.raises(ValueError, match=r"2 processes were started .* accelerate sees 1, .* Add --use_cpu true"):
        MAGEConfig(output_dir=str(tmp_path), report_to="none")


class JoinsLate(torch.distributed.ProcessGroupGloo):
    """A group of a process that needs the store of the first process for longer than that process itself."""

    def __init__(self, store: distributed_c10d.Store, *args: Any, **options: Any) -> None:
        super().__init__(store, *args, **options)
        time.sleep(1)
        store.add("joined", 1)


def test_an_error_of_all_processes_is_reported_once(tmp_path: Path) -> None:
    """Two ranks on a machine without GPUs, and without --use_cpu."""

    def rank(number: str, port: str) -> None:
        as_rank((number, number, "2", "2", port))
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        if number == "1":
            vars(distributed_c10d)["ProcessGroupGloo"] = JoinsLate
        with (tmp_path / "stderr").open("a") as sys.stderr:
            code = run("--preset", "mage-kuhn", "--model", "tiny", "--output_dir", str(tmp_path), "--dry-run")
        os._exit(code)

    with reserve_port() as port:
        assert [status(child) for child in [start_fork(partial(rank, number, port)) for number in "01"]] == [2, 2]
    (line,) = (line for line in (tmp_path / "stderr").read_text().splitlines() if line.startswith("mage: "))
    assert line.startswith("mage: 2 processes were started (WORLD_SIZE), but accelerate sees 1, ")


def test_the_processes_of_a_run_end_their_group(tmp_path: Path) -> None:
    def rank(ranks: Sequence[str]) -> None:
        as_rank(ranks)
        folder = str(tmp_path / "run")
        assert run("--preset", "mage-kuhn", *SMALL, "--max_rollouts", "1", "--output_dir", folder) == 0
        assert not torch.distributed.is_initialized()
        assert int(os.environ["WORLD_SIZE"]) == 2

    assert run_ranks(rank) == [0, 0]
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "run").num_parameters() > 0


def test_weights_that_are_not_finite_are_not_written(model_path: str, tmp_path: Path) -> None:
    trainer = make_trainer(model_path, tmp_path / "run")
    with torch.no_grad():
        next(iter(trainer.model.parameters()))[0, 0] = float("inf")
    with pytest.raises(RunStopped, match=r"The weights are not finite after update 0, so .*kept is not written"):
        trainer.write_model(tmp_path / "kept")
    assert not (tmp_path / "kept").exists()
    with pytest.raises(RunStopped, match="checkpoint-0 is not written"):
        trainer.write_checkpoint()
    assert checkpoints(tmp_path / "run") == []


def test_checksums_are_not_computed_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = checkpoint(tmp_path, 1)
    monkeypatch.setattr(manifest, "checksum", None)
    assert verify_checkpoint(folder) is None
