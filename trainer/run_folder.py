"""A run's folder on disk: checkpoints that are whole or not there, the newest sound one, rotation, the final model."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from mage_envs.durable import draft_beside, files_below, remove_drafts, sync, sync_tree, write_atomically
from trainer.manifest import MANIFEST, fault, files_listed
from trainer.saved import FILE

_NAME = re.compile(r"checkpoint-(\d+)")
_FIRST_OUT = (FILE, "adapter_config.json", "config.json")
"""Without these files a folder holds no model for anyone; they go first and come last."""
_WEIGHTS = ("*.safetensors", "*.bin", "*.index.json")


def step_of(checkpoint: Path) -> int:
    """The optimiser steps done at a checkpoint, by its name."""
    found = _NAME.fullmatch(checkpoint.name)
    return int(found[1]) if found else -1


def checkpoints(run: Path) -> list[Path]:
    """All folders named as checkpoints, newest first, sound or not."""
    found = [path for path in run.glob("checkpoint-*") if path.is_dir() and step_of(path) >= 0]
    return sorted(found, key=step_of, reverse=True)


def check_new(run: Path, remedy: str) -> None:
    """Raises ValueError where a run that begins anew would replace checkpoints; `remedy`: how to go on instead."""
    if checkpoints(run):
        raise ValueError(f"{run} holds checkpoints; {remedy} to go on, or choose another output_dir.")


def finish_checkpoint(draft: Path, place: Path) -> None:
    """Moves a whole checkpoint from `draft` to `place`; its manifest comes last, and all of it is on the disk first.

    One that is there makes way first: a run that is killed in between goes on from an older one.
    """
    listed = files_listed(draft)
    sync_tree(draft)
    write_atomically(draft / MANIFEST, listed)
    if place.exists():  # damaged, or one that an older one was chosen instead of: else it had been gone on from
        place.rename(draft_beside(place))
    draft.rename(place)
    sync(place.parent)
    remove_drafts(place.parent, "checkpoint-*")


def newest_checkpoint(run: Path) -> tuple[Path | None, list[str]]:
    """The newest sound checkpoint, and a line on each newer one that is passed over."""
    passed: list[str] = []
    for checkpoint in checkpoints(run):
        reason = fault(checkpoint)
        if reason is None:
            return checkpoint, passed
        passed.append(f"{checkpoint} is passed over: {reason}.")
    return None, passed


def rotate(run: Path, limit: int | None, kept: Path | None = None) -> None:
    """Removes the oldest sound checkpoints beyond `limit`, never `kept`; damaged ones are not counted, and stay."""
    if limit is None or limit <= 0 or len(checkpoints(run)) <= limit:
        return
    sound = [checkpoint for checkpoint in checkpoints(run) if fault(checkpoint) is None]
    if kept in sound[1:]:
        sound.remove(kept)
        sound.insert(1, kept)  # the newest stays, too
        limit = max(limit, 2)
    for checkpoint in sound[limit:]:
        leaving = draft_beside(checkpoint)
        checkpoint.rename(leaving)  # so that no half-removed folder bears its name
        shutil.rmtree(leaving, ignore_errors=True)


def place_model(draft: Path, folder: Path) -> None:
    """Moves a whole model from `draft` into `folder`, which may hold an older one beside other files.

    Between the old model and the new one there is none: the files without which nobody loads a model are removed
    before the first other one is touched, and come back last. So no reader sees old and new shards together.
    """
    sync_tree(draft)
    folder.mkdir(parents=True, exist_ok=True)
    for name in _FIRST_OUT:
        (folder / name).unlink(missing_ok=True)
    sync(folder)
    new = [path for path in files_below(draft) if path.name not in _FIRST_OUT]
    names = {path.name for path in new}
    for pattern in _WEIGHTS:
        for old in folder.glob(pattern):
            if old.name not in names:
                old.unlink()
    for path in new:
        place = folder / path.relative_to(draft)
        place.parent.mkdir(parents=True, exist_ok=True)
        path.replace(place)
    for parent in {folder, *((folder / path.relative_to(draft)).parent for path in new)}:
        sync(parent)
    for name in reversed(_FIRST_OUT):
        if (draft / name).exists():
            (draft / name).replace(folder / name)
            sync(folder)
    shutil.rmtree(draft)
