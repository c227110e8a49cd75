"""What `mage doctor` says about ALFWorld: the engine, generated games and the official data.

It loads no engine and starts no process. It may write the index of official games to the cache.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from mage_envs.games.alfworld.data import FOLDERS, VARIABLE, data_root, find_split_folder, tally
from mage_envs.games.alfworld.errors import UNSUPPORTED_PYTHON
from mage_envs.games.alfworld.index import read_index
from mage_envs.games.alfworld.maker import GAMES_PER_TASK
from mage_envs.games.alfworld.scenes import TASK_TYPES, is_installed
from mage_envs.loading.extras import version_or


def rows() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each finding."""
    remedy = 'pip install "mage-envs[alfworld]" brings it'
    if sys.version_info >= UNSUPPORTED_PYTHON:
        remedy = "its engine requires Python 3.11 or 3.12"
    yield "alfworld", version_or("alfworld", f"not installed; {remedy}")
    # Versions come from the packages' metadata, because importing the engine would load it.
    engine = ("textworld", "fast-downward-textworld")
    yield "  engine", ", ".join(f"{package} {version_or(package, 'missing')}" for package in engine)
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
    folder = find_split_folder(root, split)
    if folder is None:
        return "no such folder"
    entries = read_index(folder)
    playable = sum(entry.playable for entry in entries)
    return f"{playable} playable games of {len(entries)}: {tally(entries)}"
