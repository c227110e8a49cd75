"""Folders that one process builds and every process reads: lock, draft, manifest with checksums, rename."""

from __future__ import annotations

import glob
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mage_envs.files.atomic import checksum, draft_beside, files_below, remove_drafts, sync, sync_tree
from mage_envs.files.bounded import open_inside, read_json_inside
from mage_envs.files.cache import VARIABLE, cache_root
from mage_envs.files.locking import file_lock

MANIFEST = "manifest.json"


class DamagedCache(RuntimeError):
    """A built folder whose files differ from its manifest."""


def build_cached_folder(key: str, build: Callable[[Path], dict[str, Any]], root: Path | None = None) -> Path:
    """Return the folder `webshop/<key>`, and build it if it does not exist. Concurrent processes build it once.

    Args:
        key: Name of the folder. It must identify the content.
        build: Function that fills an empty folder and returns the entries of its manifest.
        root: Root of the cache (default: `cache_root()`).

    Raises:
        PermissionError: If the cache cannot be written.
    """
    home = (root or cache_root()) / "webshop"
    final = home / key
    # The manifest is part of a draft before its rename, so a folder with a manifest is complete. No lock is needed.
    if (final / MANIFEST).is_file():
        return final
    try:
        home.mkdir(parents=True, exist_ok=True)
        with file_lock(home / f"{key}.lock"):
            # Another process may have built the folder while this one waited for the lock.
            if not (final / MANIFEST).is_file():
                _build(home, final, build)
    except PermissionError as error:
        raise PermissionError(
            f"WebShop cannot write to {home} ({error.strerror}); set {VARIABLE} to a folder that it can write to."
        ) from error
    return final


def _build(home: Path, final: Path, build: Callable[[Path], dict[str, Any]]) -> None:
    # A process that died during its build left its draft behind.
    remove_drafts(home, glob.escape(final.name))
    draft = draft_beside(final)
    draft.mkdir()
    try:
        about = build(draft)
        about["files"] = {str(file.relative_to(draft)): checksum(file) for file in files_below(draft)}
        (draft / MANIFEST).write_text(json.dumps(about, indent=1, sort_keys=True), "utf-8")
        # Files reach the disk before the rename, so that a crash cannot leave a complete name with partial files.
        sync_tree(draft)
        if final.is_dir():
            shutil.rmtree(final)
        draft.rename(final)
        sync(home)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a built folder.

    Raises:
        FileNotFoundError: If the folder has none.
        DamagedCache: If a file is missing, has another size, or is a link out of the folder.
    """
    try:
        about: dict[str, Any] = read_json_inside(folder, MANIFEST)
        sizes = {name: details["bytes"] for name, details in about["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damage_error(folder, f"its {MANIFEST} cannot be read ({error})") from error
    for name, size in sizes.items():
        try:
            with open_inside(folder, name) as file:
                fits = file.seek(0, os.SEEK_END) == size
        except (OSError, ValueError):
            fits = False
        if not fits:
            raise _damage_error(folder, f"{name} is missing, a link out of the folder, or does not have {size} bytes")
    return about


class CheckedFiles:
    """The files of a built folder. Each file is compared with its checksum at its first use."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.about = folder, read_manifest(folder)
        # Checksums of gigabytes take seconds, so each file is verified once per object.
        self._sound: set[Path] = set()

    def __call__(self, file: Path) -> Path:
        """Return `file`. Raises DamagedCache if its checksum differs."""
        if file not in self._sound:
            name = str(file.relative_to(self.folder))
            if checksum(file) != self.about["files"][name]:
                raise _damage_error(self.folder, f"{name} does not match its checksum")
            self._sound.add(file)
        return file


def skip_check(file: Path) -> Path:
    """Return `file` without a check, for a folder that is still being built."""
    return file


def verify(folder: Path) -> None:
    """Compare every file with its checksum. Raises DamagedCache."""
    files = CheckedFiles(folder)
    for name in files.about["files"]:
        files(folder / name)


def _damage_error(folder: Path, reason: str) -> DamagedCache:
    return DamagedCache(f"{folder} is damaged: {reason}. Delete the folder; the next use builds it again.")
