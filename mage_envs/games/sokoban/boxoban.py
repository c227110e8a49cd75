"""Level files in Boxoban's format: `; N`, then the rows of level N.

The characters are `#` wall, blank floor, `@` player, `$` box, `.` target, `*` box on a target and `+` player on a
target. Boxoban's own levels have 10 rows of 10 cells (Apache-2.0).
"""

from __future__ import annotations

import os
from functools import lru_cache
from itertools import chain
from pathlib import Path

import numpy as np

from mage_envs.games.sokoban.level import Level, level_of
from mage_envs.games.sokoban.rooms import Room
from mage_envs.games.sokoban.search import Retrograde
from mage_envs.loading.imports import check_path

SYMBOLS = {character: character for character in "# .*$@+"}


class LevelFileError(ValueError):
    """Error for a level file that cannot be read. The message names the file and the line."""


def load_levels(path: str | os.PathLike[str]) -> tuple[Level, ...]:
    """Return all levels of a file, or of all `.txt` files below a folder, sorted by path.

    Raises FileNotFoundError if there is no file, and LevelFileError if a level is malformed.
    """
    check_path(path, "levels")
    path = Path(path)
    if path.is_dir():
        # Sorted by the parts of the path, so that the order is the same on every system. Seeds draw a level by index.
        files = sorted(path.rglob("*.txt"), key=lambda file: file.relative_to(path).parts)
        if not files:
            raise FileNotFoundError(f"The folder {path} has no level files (*.txt).")
        return tuple(chain.from_iterable(_levels_of(file, file.stat().st_mtime_ns) for file in files))
    if not path.is_file():
        raise FileNotFoundError(f"Level file {path} not found. Pass a file or folder in Boxoban's format.")
    return _levels_of(path, path.stat().st_mtime_ns)


# The time stamp is part of the key, so that a changed file is read again.
@lru_cache(maxsize=4096)
def _levels_of(path: Path, saved_at: int) -> tuple[Level, ...]:
    """Return the levels of a file that was modified at `saved_at`. All environments share them."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise LevelFileError(f"{path}: not a text file ({error.reason} at byte {error.start}).") from error
    blocks: list[tuple[int, list[str]]] = []
    for number, line in enumerate(lines, start=1):
        if line.startswith(";") and line[1:].strip().isdigit():
            blocks.append((number, []))
        elif line.startswith(";") or (line.strip() and not blocks):
            raise LevelFileError(f"{path}, line {number}: a level must begin with a line '; N', got {line[:20]!r}.")
        elif line.strip():
            blocks[-1][1].append(line)
    if not blocks:
        raise LevelFileError(f"{path}, line 1: the file has no level.")
    return tuple(_level(path, header, rows) for header, rows in blocks)


def _level(path: Path, header: int, rows: list[str]) -> Level:
    if not rows:
        raise LevelFileError(f"{path}, line {header}: the level has no rows.")
    try:
        return level_of(rows, SYMBOLS)
    except ValueError as error:
        raise LevelFileError(f"{path}, line {header}: in the level below, {error}.") from error


class FileRooms:
    """The levels of a file or folder, drawn with equal probability."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.levels = load_levels(path)

    def draw(self, rng: np.random.Generator) -> Room:
        level = self.levels[int(rng.integers(len(self.levels)))]
        return _room(level)


# Later episodes play the same level again, and its search may take 0.2 s.
@lru_cache(maxsize=256)
def _room(level: Level) -> Room:
    """Return the level with its oracle."""
    return Room(level, Retrograde(level.floor, level.targets, level.width))
