"""Files and folders that a killed process or a full disk leaves whole or not there."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any

_DRAFT = ".partial"


def draft_beside(path: Path) -> Path:
    """A name in the same folder that no other process takes, for what becomes `path` when it is whole."""
    return path.with_name(f".{path.name}.{token_hex(6)}{_DRAFT}")


def drafts_of(folder: Path, name: str = "*") -> list[Path]:
    """What processes that were killed left in `folder` instead of `name` (a glob pattern)."""
    return sorted(folder.glob(f".{name}.*{_DRAFT}"))


def write_atomically(path: Path, content: str | bytes) -> None:
    """Writes a file so that a reader, also after a crash, sees the old content or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = draft_beside(path)
    try:
        with draft.open("xb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
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
    digest = sha256()
    with file.open("rb") as opened:
        while block := opened.read(1 << 20):
            digest.update(block)
    return {"bytes": file.stat().st_size, "sha256": digest.hexdigest()}
