"""Files and folders that a killed process or a full disk leaves whole or not there."""

from __future__ import annotations

import os
import shutil
import stat
import time
from contextlib import suppress
from functools import cache
from hashlib import file_digest
from pathlib import Path
from secrets import token_hex
from typing import Any

_DRAFT = ".partial"
_BYTES = 6
"""Of the random part of a draft's name."""
_STALE = 3600.0
"""Seconds after its last change when no living process can still be writing a single file."""


def output_path(text: str) -> Path:
    """Return a path as absolute: the type of every option that names an output.

    Code that is played later may change the current folder.
    """
    return Path(text).absolute()


def draft_beside(path: Path) -> Path:
    """A name in the same folder that no other process takes, for what becomes `path` when it is whole."""
    return path.with_name(f".{path.name}.{token_hex(_BYTES)}{_DRAFT}")


def drafts_of(folder: Path, name: str = "*") -> list[Path]:
    """What processes that were killed left in `folder` instead of `name` (a glob pattern)."""
    return sorted(folder.glob(f".{name}.{'[0-9a-f]' * 2 * _BYTES}{_DRAFT}"))


def remove_drafts(folder: Path, name: str) -> None:
    """Removes the folders among these drafts; nobody else may be writing there."""
    for stale in drafts_of(folder, name):
        shutil.rmtree(stale, ignore_errors=True)


@cache
def _remove_stale_files(folder: Path) -> None:
    """Removes the files that killed processes left as drafts, once per process and folder; others may write there."""
    for draft in drafts_of(folder):
        with suppress(OSError):  # another process removed it first, or it may not be removed: both harm nobody
            about = draft.lstat()
            if stat.S_ISREG(about.st_mode) and time.time() - about.st_mtime > _STALE:
                draft.unlink()


def write_atomically(path: Path, content: str | bytes) -> None:
    """Writes a file so that a reader, also after a crash, sees the old content or the new, never a part.

    What killed processes left beside it is removed after an hour, by the next process that writes into the folder.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_stale_files(path.parent.absolute())
    draft = draft_beside(path)
    try:
        with draft.open("xb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException as error:
        draft.unlink(missing_ok=True)
        if isinstance(error, OSError):  # a full disk names no file, a folder without rights the draft
            error.filename = str(path)
        raise
    sync(path.parent)


def sync(path: Path) -> None:
    """Waits until a file, or the list of a folder's files, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """Waits until all files below a folder are on the disk, and the folders that list them."""
    for path in sorted(folder.rglob("*"), reverse=True):
        sync(path)
    sync(folder)


def files_below(folder: Path) -> list[Path]:
    """All files below a folder, sorted."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def checksum(file: Path) -> dict[str, Any]:
    """A file's size in `bytes` and its `sha256`."""
    with file.open("rb") as opened:
        return {"bytes": file.stat().st_size, "sha256": file_digest(opened, "sha256").hexdigest()}
