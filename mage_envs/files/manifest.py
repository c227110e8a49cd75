"""Manifest of a checkpoint: the list of its files with their checksums."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from mage_envs.files.atomic import checksum, files_below
from mage_envs.files.bounded import open_inside, parse_json, read_inside

MANIFEST = "manifest.json"
"""File of a checkpoint with every file's size and checksum, written last."""
_CHECKED: dict[tuple[int, int, int, int], Mapping[str, Any]] = {}
"""Checksums by device, inode, size and time of change, so that rotation reads changed files only."""


def write_manifest(folder: Path) -> str:
    """Return the text of the manifest of a folder with these files."""
    files = {str(file.relative_to(folder)): _look_up_checksum(file) for file in files_below(folder)}
    return json.dumps({"files": files}, indent=1, sort_keys=True) + "\n"


def verify_checkpoint(checkpoint: Path, pattern: str = "*") -> str | None:
    """Return the first difference between a checkpoint and its manifest, or None if there is none.

    Only files whose names match `pattern` are compared.
    """
    path = checkpoint / MANIFEST
    if not path.exists():
        return f"it has no {MANIFEST}, so it was not finished (or written by another program)"
    try:
        entries: Mapping[str, Mapping[str, Any]] = parse_json(read_inside(checkpoint, MANIFEST))["files"]
        files = {name: written for name, written in entries.items() if fnmatch(name, pattern)}
        missing = sorted(name for name in files if not (checkpoint / name).is_file())
        if missing:
            return f"{missing[0]} is missing"
        # Sizes first: reading several gigabytes to find a truncated file would take minutes.
        for name, written in files.items():
            with open_inside(checkpoint, name) as file:
                size = file.seek(0, os.SEEK_END)
            if size != written["bytes"]:
                return f"{name} has {size} bytes instead of {written['bytes']}"
        changed = sorted(name for name, written in files.items() if _look_up_checksum(checkpoint / name) != written)
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        return f"its files cannot be read ({' '.join(str(error).split())})"
    return f"{changed[0]} is not what was written" if changed else None


def _look_up_checksum(file: Path) -> Mapping[str, Any]:
    # The inode is part of the key: a file that is moved into place keeps it, and a replacement has another one.
    about = file.stat()
    key = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns)
    if key not in _CHECKED:
        _CHECKED[key] = checksum(file)
    return _CHECKED[key]
