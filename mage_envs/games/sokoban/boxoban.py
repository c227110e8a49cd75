"""Level files in Boxoban's format: `; N`, then the rows of level N, in `#` wall, blank floor, `@` player, `$` box,
`.` target, `*` box on a target, `+` player on a target. Boxoban's own levels have 10 rows of 10 (Apache-2.0)."""

from __future__ import annotations

import os
from functools import lru_cache
from itertools import chain
from pathlib import Path

import numpy as np

from mage_envs.games.sokoban.level import Level, level_of
from mage_envs.games.sokoban.rooms import Room
from mage_envs.games.sokoban.search import Retrograde
from mage_envs.imports import check_path

SYMBOLS = {character: character for character in "# .*$@+"}


class LevelFileError(ValueError):
    """A level file that cannot be read; the message names the file and the line."""


def load_levels(path: str | os.PathLike[str]) -> tuple[Level, ...]:
    """All levels of a file, or of all `.txt` files of a folder and its folders, in the order of their names.

    Raises FileNotFoundError, and LevelFileError for anything that is no level.
    """
    check_path(path, "levels")
    path = Path(path)
    if path.is_dir():
        files = sorted(path.rglob("*.txt"), key=lambda file: file.relative_to(path).parts)
        if not files:
            raise FileNotFoundError(f"The folder {path} holds no level files (*.txt).")
        return tuple(chain.from_iterable(_levels_of(file, file.stat().st_mtime_ns) for file in files))
    if not path.is_file():
        raise FileNotFoundError(f"There is no level file {path}; give a file or folder in Boxoban's format.")
    return _levels_of(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=4096)
def _levels_of(path: Path, saved_at: int) -> tuple[Level, ...]:
    """The levels of the file as it was at the time stamp `saved_at`; environments share them."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise LevelFileError(f"{path}: this is no text file ({error.reason} at byte {error.start}).") from error
    blocks: list[tuple[int, list[str]]] = []
    for number, line in enumerate(lines, start=1):
        if line.startswith(";") and line[1:].strip().isdigit():
            blocks.append((number, []))
        elif line.startswith(";") or (line.strip() and not blocks):
            raise LevelFileError(f"{path}, line {number}: a level begins with a line '; N', not {line[:20]!r}.")
        elif line.strip():
            blocks[-1][1].append(line)
    if not blocks:
        raise LevelFileError(f"{path}, line 1: the file has no level.")
    return tuple(_level(path, header, rows) for header, rows in blocks)


def _level(path: Path, header: int, rows: list[str]) -> Level:
    if not rows:
        raise LevelFileError(f"{path}, line {header}: no rows follow.")
    try:
        return level_of(rows, SYMBOLS)
    except ValueError as error:
        raise LevelFileError(f"{path}, line {header}: in the level below, {error}.") from error


class FileRooms:
    """The levels of a file or folder, each equally likely."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.levels = load_levels(path)

    def draw(self, rng: np.random.Generator) -> Room:
        level = self.levels[int(rng.integers(len(self.levels)))]
        return _room(level)


@lru_cache(maxsize=256)
def _room(level: Level) -> Room:
    """The level with its oracle; kept, since later episodes play it again and its search may take 0.2 s."""
    return Room(level, Retrograde(level.floor, level.targets, level.width))
