"""Folders that are built once and read by every process: lock, draft, manifest with checksums, rename."""

from __future__ import annotations

import glob
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mage_envs.cache import VARIABLE, cache_root
from mage_envs.durable import checksum, draft_beside, files_below, remove_drafts, sync, sync_tree

MANIFEST = "manifest.json"


class DamagedCache(RuntimeError):
    """A built folder whose files are not what its manifest says."""


def cached(key: str, build: Callable[[Path], dict[str, Any]], root: Path | None = None) -> Path:
    """The folder `webshop/<key>`, made by `build` where there is none; processes that ask together build it once.

    `build` fills an empty folder and returns what the manifest shall say of it.
    """
    home = (root or cache_root()) / "webshop"
    final = home / key
    if (final / MANIFEST).is_file():
        return final
    try:
        home.mkdir(parents=True, exist_ok=True)
        with _locked(home / f"{key}.lock"):
            if not (final / MANIFEST).is_file():
                _build(home, final, build)
    except PermissionError as error:
        raise PermissionError(
            f"WebShop cannot write to {home} ({error.strerror}); name a folder that it may write to in {VARIABLE}."
        ) from error
    return final


def _build(home: Path, final: Path, build: Callable[[Path], dict[str, Any]]) -> None:
    remove_drafts(home, glob.escape(final.name))
    draft = draft_beside(final)
    draft.mkdir()
    try:
        about = build(draft)
        about["files"] = {str(file.relative_to(draft)): checksum(file) for file in files_below(draft)}
        (draft / MANIFEST).write_text(json.dumps(about, indent=1, sort_keys=True), "utf-8")
        sync_tree(draft)
        if final.is_dir():
            shutil.rmtree(final)
        draft.rename(final)
        sync(home)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a built folder, whose files are all there in their full size. Raises DamagedCache."""
    try:
        about: dict[str, Any] = json.loads((folder / MANIFEST).read_text("utf-8"))
        sizes = {name: details["bytes"] for name, details in about["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(folder, f"its {MANIFEST} cannot be read ({error})") from error
    for name, size in sizes.items():
        if not (folder / name).is_file() or (folder / name).stat().st_size != size:
            raise _damaged(folder, f"{name} is missing or does not have {size} bytes")
    return about


class CheckedFiles:
    """The files of a built folder, each compared with its checksum before it is first read through this object."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.about = folder, read_manifest(folder)
        self._sound: set[Path] = set()

    def __call__(self, file: Path) -> Path:
        """The file itself. Raises DamagedCache."""
        if file not in self._sound:
            name = str(file.relative_to(self.folder))
            if checksum(file) != self.about["files"][name]:
                raise _damaged(self.folder, f"{name} is not what was written")
            self._sound.add(file)
        return file


def unchecked(file: Path) -> Path:
    """The file itself: for what is still being built."""
    return file


def verify(folder: Path) -> None:
    """Compares every file with its checksum. Raises DamagedCache."""
    checked = CheckedFiles(folder)
    for name in checked.about["files"]:
        checked(folder / name)


def _damaged(folder: Path, reason: str) -> DamagedCache:
    return DamagedCache(f"{folder} is damaged: {reason}. Delete that folder; it is built again when next needed.")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds the lock file, which the system releases if the process dies."""
    import fcntl  # not on Windows, where the package can still be imported

    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
