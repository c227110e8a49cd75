"""Findings about the engines, data and caches of the games on this machine, which `mage doctor` reports.

They load no engine and start no process. They may write the index of official ALFWorld games to the cache.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from mage_envs.files.cache import cache_root
from mage_envs.games.alfworld.data import FOLDERS, VARIABLE, data_root, split_folder, tally
from mage_envs.games.alfworld.errors import UNSUPPORTED_PYTHON
from mage_envs.games.alfworld.index import read_index
from mage_envs.games.alfworld.maker import GAMES_PER_TASK
from mage_envs.games.alfworld.scenes import TASK_TYPES, is_installed

BOXOBAN = "BOXOBAN_LEVELS"


def _alfworld() -> Iterator[tuple[str, str]]:
    remedy = 'pip install "mage-envs[alfworld]" brings it'
    if sys.version_info >= UNSUPPORTED_PYTHON:
        remedy = "its engine requires Python 3.11 or 3.12"
    yield "alfworld", _version("alfworld", f"not installed; {remedy}")
    # Versions come from the packages' metadata, because importing the engine would load it.
    engine = ("textworld", "fast-downward-textworld")
    yield "  engine", ", ".join(f"{package} {_version(package, 'missing')}" for package in engine)
    if is_installed():
        for split, count in GAMES_PER_TASK.items():
            yield f"  generated, {FOLDERS[split]}", f"{count * len(TASK_TYPES)} games of each size"
    root = data_root()
    if root is None:
        yield "  official data", f"none: {VARIABLE} is not set (the generated games need none)"
        return
    yield "  official data", f"{VARIABLE}={root}" + ("" if root.is_dir() else ", which is no folder")
    for split, name in FOLDERS.items():
        yield f"  official, {name}", _official(root, split)


def _official(root: Path, split: str) -> str:
    folder = split_folder(root, split)
    if folder is None:
        return "no such folder"
    entries = read_index(folder)
    playable = sum(entry.playable for entry in entries)
    return f"{playable} playable games of {len(entries)}: {tally(entries)}"


def _boxoban() -> Iterator[tuple[str, str]]:
    named = os.environ.get(BOXOBAN)
    if not named:
        yield "Boxoban levels", f"none: {BOXOBAN} is not set (Sokoban makes its own rooms)"
        return
    folder = Path(named)
    count = sum(1 for _ in folder.rglob("*.txt")) if folder.is_dir() else 0
    yield "Boxoban levels", f"{BOXOBAN}={named}, " + (f"{count} level files" if count else "which holds no level file")


def _packages() -> Iterator[tuple[str, str]]:
    yield "open_spiel", _version("open_spiel", "missing; it is a core dependency: pip install mage-envs")
    brings = 'not installed; pip install "mage-envs[gym-sokoban]" brings its generator'
    yield "gym-sokoban", _version("gym-sokoban", brings)
    yield "torch", _version("torch", 'not installed; pip install "mage-envs[train]" brings the trainer')


def _cache() -> Iterator[tuple[str, str]]:
    folder = cache_root()
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    size = sum(path.stat().st_size for path in files) / 2**20
    yield "cache", f"{folder}: {len(files)} files, {size:.1f} MB; it can be deleted at any time"


def _version(package: str, otherwise: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return otherwise


CHECKS: tuple[Callable[[], Iterator[tuple[str, str]]], ...] = (_packages, _alfworld, _boxoban, _cache)
"""Checks in the order of the report."""
