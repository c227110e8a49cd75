"""Level files: every level of a file or folder that can be played, and the reason for every level that cannot.

`level_text` reads the text forms. Boxoban's own files (Apache-2.0) have a line `; N`, then 10 rows of 10 cells.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mage_envs.files.bounded import read_named
from mage_envs.games.sokoban.level import Level
from mage_envs.games.sokoban.level_text import blocks_of, decode_text, level_of_rows
from mage_envs.games.sokoban.rooms import TRIES, Room, RoomSource
from mage_envs.games.sokoban.search import Retrograde
from mage_envs.loading.imports import check_path

_LOG = logging.getLogger(__name__)
SUFFIXES = (".txt", ".xsb", ".sok")
"""Endings of the names of level files in a folder."""
MAX_SOLUTION = 300
"""Maximum moves of the shortest solution of a level from a file."""
SEARCH_BUDGET = 100_000
"""Entries of the search tables within which levels are solved when their file is read (about 0.5 s)."""
SOLVED = "it is solved at the start"


class LevelFileError(ValueError):
    """Error for a level file that cannot be read. The message names the file and the line."""


class DroppedLevel(NamedTuple):
    """A level that cannot be played."""

    path: Path
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}, line {self.line}: {self.reason}"


class LevelSet(NamedTuple):
    """The levels of a file or folder."""

    levels: tuple[Level, ...]
    """Levels that can be played, in the order of the files."""
    dropped: tuple[DroppedLevel, ...]
    unsolved: int
    """Number of `levels` that are only solved when they are drawn. A level without a solution is then replaced."""

    def summary(self) -> str:
        """Return one line: how many levels were read, how many were dropped, and why."""
        text = f"{len(self.levels) + len(self.dropped):,} levels read"
        if self.dropped:
            reasons = Counter(level.reason for level in self.dropped).most_common()
            listed = "; ".join(f"{count:,}: {reason}" for reason, count in reasons[:5])
            remainder = f"; {len(reasons) - 5} other reasons" if len(reasons) > 5 else ""
            first_level = self.dropped[0]
            position = f"{first_level.path}, line {first_level.line}"
            text += f", {len(self.dropped):,} dropped ({listed}{remainder}; the first is in {position})"
        if self.unsolved:
            text += f", {self.unsolved:,} not solved yet; those without a solution are replaced when they are drawn"
        return f"{text}."


def load_levels(path: str | os.PathLike[str]) -> tuple[Level, ...]:
    """Return the levels of `read_levels(path)`."""
    return read_levels(path).levels


def read_levels(path: str | os.PathLike[str]) -> LevelSet:
    """Return the levels of a file, or of all level files below a folder, sorted by path.

    Raises FileNotFoundError if there is no file, and LevelFileError if no level can be played.
    """
    check_path(path, "levels")
    path = Path(path)
    if path.is_dir():
        # Sorted by the parts of the path, so that the order is the same on every system. Seeds draw a level by index.
        files = sorted(
            (file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file()),
            key=lambda file: file.relative_to(path).parts,
        )
        if not files:
            raise FileNotFoundError(f"The folder {path} has no level files ({', '.join(SUFFIXES)}).")
    elif path.exists():
        files = [path]
    else:
        raise FileNotFoundError(f"Level file {path} not found. Pass a file or folder of Sokoban levels.")
    return _read(path, tuple((file, file.stat().st_mtime_ns) for file in files))


# The time stamps are part of the key, so that a changed file is read again.
@lru_cache(maxsize=64)
def _read(path: Path, files: tuple[tuple[Path, int], ...]) -> LevelSet:
    """Return the levels of files that were modified at these times. All environments share them."""
    levels: list[Level] = []
    dropped: list[DroppedLevel] = []
    entries = unsolved = 0
    for file, saved_at in files:
        for line, level in _levels_of(file, saved_at):
            reason = level if isinstance(level, str) else ""
            if isinstance(level, Level) and entries < SEARCH_BUDGET:
                room = room_of(level)
                reason = fault_of(room)
                entries += room.search.entries
            elif not reason:
                unsolved += 1
            if reason:
                dropped.append(DroppedLevel(file, line, reason))
            elif isinstance(level, Level):
                levels.append(level)
    if not levels:
        if not dropped:
            raise LevelFileError(f"{path}, line 1: the file has no level.")
        raise LevelFileError(f"{dropped[0]}." if len(dropped) == 1 else f"{dropped[0]}. No other level can be played.")
    read = LevelSet(tuple(levels), tuple(dropped), unsolved)
    if dropped:
        _LOG.warning("%s: %s", path, read.summary())
    return read


@lru_cache(maxsize=4096)
def _levels_of(path: Path, saved_at: int) -> Sequence[tuple[int, Level | str]]:
    """Return the line of each level of a file with the level, or with the reason why it cannot be played."""
    try:
        blocks = blocks_of(decode_text(read_named(path)))
    except ValueError as error:
        raise LevelFileError(f"{path}: not a text file ({error}).") from error
    levels: list[tuple[int, Level | str]] = []
    for line, rows in blocks:
        try:
            level = level_of_rows(rows)
            levels.append((line, SOLVED if level.boxes == level.targets else level))
        except ValueError as error:
            levels.append((line, str(error)))
    return levels


def fault_of(room: Room) -> str:
    """Return the reason why a room cannot be played, or an empty text."""
    level, search = room
    if level.boxes == level.targets:
        return SOLVED
    distance = search.distance(level.boxes, level.player)
    if distance is None:
        return "it has no solution" if search.complete else "the search found no solution"
    if distance > MAX_SOLUTION:
        return f"its shortest solution has more than {MAX_SOLUTION} moves"
    return ""


class FileRooms(RoomSource):
    """The levels of a file or folder, drawn with equal probability."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.read = read_levels(path)
        self.levels = self.read.levels

    def draw(self, rng: np.random.Generator) -> Room:
        # A level that was not solved when the file was read may have no solution.
        for _ in range(TRIES):
            room = room_of(self.levels[int(rng.integers(len(self.levels)))])
            if not fault_of(room):
                return room
        raise LevelFileError(f"{TRIES:,} draws had no level with a known solution. Choose a file with easier levels.")


# Later episodes play the same level again, and its search may take 0.2 s.
@lru_cache(maxsize=256)
def room_of(level: Level) -> Room:
    """Return the level with its oracle."""
    return Room(level, Retrograde(level.floor, level.targets, level.width))
