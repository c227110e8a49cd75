"""A run's folder on disk: checkpoints that are complete or missing, rotation, and the final model."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from mage_envs.files.atomic import draft_beside, files_below, remove_drafts, sync, sync_tree, write_atomically
from mage_envs.files.manifest import MANIFEST, verify_checkpoint, write_manifest
from mage_envs.wrappers.rollout.training_log import SETTINGS

_NAME = re.compile(r"checkpoint-(\d+)")
_FIRST_OUT = (SETTINGS, "adapter_config.json", "config.json")
"""Files without which a folder holds no model. They are removed first and written last."""
_WEIGHTS = ("*.safetensors", "*.bin", "*.index.json")


def step_of(checkpoint: Path) -> int:
    """Return the optimiser steps done at a checkpoint, by its name; -1 for another name."""
    match = _NAME.fullmatch(checkpoint.name)
    return int(match[1]) if match else -1


def checkpoints(run: Path) -> list[Path]:
    """Return all folders named as checkpoints, newest first, sound or not."""
    folders = [path for path in run.glob("checkpoint-*") if path.is_dir() and step_of(path) >= 0]
    return sorted(folders, key=step_of, reverse=True)


def check_new(run: Path, remedy: str) -> None:
    """Raise ValueError if a new run would replace checkpoints. `remedy` states how to resume instead."""
    if checkpoints(run):
        raise ValueError(f"{run} holds checkpoints; {remedy} to continue the run, or choose another output_dir.")


def finish_checkpoint(draft: Path, target: Path) -> None:
    """Move a complete checkpoint from `draft` to `target`, after all files are on the disk, the manifest last.

    An existing checkpoint is moved away first. A run that is killed between the two moves resumes from an older one.
    """
    # Checksums before the manifest exists, which must not list itself.
    listed = write_manifest(draft)
    sync_tree(draft)
    write_atomically(draft / MANIFEST, listed)
    # A damaged checkpoint, or one that was passed over for an older one. A sound one would have been resumed from.
    if target.exists():
        target.rename(draft_beside(target))
    draft.rename(target)
    # A rename is on the disk only when its folder is.
    sync(target.parent)
    remove_drafts(target.parent, "checkpoint-*")


def newest_checkpoint(run: Path) -> tuple[Path | None, list[str]]:
    """Return the newest sound checkpoint, and a line on each newer one that is damaged."""
    passed: list[str] = []
    for checkpoint in checkpoints(run):
        reason = verify_checkpoint(checkpoint)
        if reason is None:
            return checkpoint, passed
        passed.append(f"{checkpoint} is passed over: {reason}.")
    return None, passed


def rotate(run: Path, limit: int | None, best: Path | None = None) -> None:
    """Remove the oldest sound checkpoints beyond `limit`, never `best`. Damaged ones are not counted, and stay.

    Args:
        limit: Most sound checkpoints; None or 0 removes none.
        best: The best checkpoint. It stays in addition to the newest one, even at a limit of 1.
    """
    if limit is None or limit <= 0 or len(checkpoints(run)) <= limit:
        return
    sound = [checkpoint for checkpoint in checkpoints(run) if verify_checkpoint(checkpoint) is None]
    if best in sound[1:]:
        sound.remove(best)
        # Second in the order: the newest stays, too.
        sound.insert(1, best)
        limit = max(limit, 2)
    for checkpoint in sound[limit:]:
        leaving = draft_beside(checkpoint)
        # Renamed first, so that no half-removed folder has a checkpoint's name.
        checkpoint.rename(leaving)
        shutil.rmtree(leaving, ignore_errors=True)


def place_model(draft: Path, folder: Path) -> None:
    """Move a complete model from `draft` into `folder`, which may hold an older one beside other files.

    Between the old model and the new one the folder holds none. The files that every loader needs are removed before
    any other, and written last. So no reader sees old and new shards together.
    """
    sync_tree(draft)
    folder.mkdir(parents=True, exist_ok=True)
    for name in _FIRST_OUT:
        (folder / name).unlink(missing_ok=True)
    sync(folder)
    new = [path for path in files_below(draft) if path.name not in _FIRST_OUT]
    names = {path.name for path in new}
    # Shards of the old model that the new one does not replace, for example if it has fewer.
    for pattern in _WEIGHTS:
        for old in folder.glob(pattern):
            if old.name not in names:
                old.unlink()
    for path in new:
        target = folder / path.relative_to(draft)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)
    # Weights must be on the disk before the files that make them a model.
    for parent in {folder, *((folder / path.relative_to(draft)).parent for path in new)}:
        sync(parent)
    for name in reversed(_FIRST_OUT):
        if (draft / name).exists():
            (draft / name).replace(folder / name)
            sync(folder)
    shutil.rmtree(draft)
