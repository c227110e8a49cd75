"""Files and folders that are either complete or absent after a killed process or a full disk."""

from __future__ import annotations

import json
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
"""Bytes of the random part of a draft's name."""
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Flags that open no link, and wait for no reader or writer of a pipe. Windows has neither."""
_STALE = 3600.0
"""Age in seconds of a draft that is certainly abandoned, since its last change."""


def output_path(text: str) -> Path:
    """Return a path as an absolute path: the `type` of every option that names an output."""
    # Environments and opponents of the user run later, and may change the current folder.
    return Path(text).absolute()


def open_to_append(path: Path) -> int:
    """Return the descriptor of a file that is appended to. Raises OSError if it is a link or a pipe."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | NO_FOLLOW, 0o644)


def draft_beside(path: Path) -> Path:
    """Return a unique path in the same folder, for content that becomes `path` when it is complete."""
    return path.with_name(f".{path.name}.{token_hex(_BYTES)}{_DRAFT}")


def drafts_of(folder: Path, name: str = "*") -> list[Path]:
    """Return the drafts of `name` (a glob pattern) that killed processes left in `folder`."""
    return sorted(folder.glob(f".{name}.{'[0-9a-f]' * 2 * _BYTES}{_DRAFT}"))


def remove_drafts(folder: Path, name: str) -> None:
    """Remove the folders among these drafts. No other process may be writing there."""
    for stale in drafts_of(folder, name):
        shutil.rmtree(stale, ignore_errors=True)


@cache
def _remove_stale_files(folder: Path) -> None:
    """Remove the drafts of files that killed processes left, once per process and folder. Others may be writing."""
    for draft in drafts_of(folder):
        # Both errors are harmless: another process removed the draft first, or this one has no permission.
        with suppress(OSError):
            about = draft.lstat()
            if stat.S_ISREG(about.st_mode) and time.time() - about.st_mtime > _STALE:
                draft.unlink()


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that a reader sees the old content or the new content, never a part, even after a crash.

    Drafts of killed processes are removed after an hour, by the next process that writes into the folder.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_stale_files(path.parent.absolute())
    draft = draft_beside(path)
    try:
        with draft.open("xb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            # Before the rename: some file systems would otherwise write the new name before the content.
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException as error:
        draft.unlink(missing_ok=True)
        # The error of a full disk has no file name, and that of a read-only folder has the draft's.
        if isinstance(error, OSError):
            error.filename = str(path)
        raise
    # The rename itself is an entry of the folder.
    sync(path.parent)


def write_json(path: Path, content: Any, *, sort_keys: bool = False) -> None:
    """Write a file of indented JSON for people and programs, like `write_atomically`."""
    write_atomically(path, json.dumps(content, indent=2, sort_keys=sort_keys) + "\n")


def sync(path: Path) -> None:
    """Wait until a file, or the list of a folder's files, is on the disk."""
    # Windows cannot open a folder, and flushes only what may be written.
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """Wait until all files below a folder, and the folders that list them, are on the disk."""
    for path in sorted(folder.rglob("*"), reverse=True):
        sync(path)
    sync(folder)


def files_below(folder: Path) -> list[Path]:
    """Return all files below a folder, sorted."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def checksum(file: Path) -> dict[str, Any]:
    """Return a file's size in `bytes` and its `sha256`."""
    with file.open("rb") as opened:
        return {"bytes": file.stat().st_size, "sha256": file_digest(opened, "sha256").hexdigest()}
