"""Index of the games below a folder, with the playable ones marked. It is cached between processes.

Reading every file of the official training split takes seconds. So the index is stored in the cache folder, and only
the trials whose folder or files have changed are read again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from mage_envs.files.atomic import write_atomically
from mage_envs.files.bounded import parse_json, read_named
from mage_envs.files.cache import cache_root
from mage_envs.games.alfworld.scenes import TASK_TYPES

GAME_FILE = "game.tw-pddl"
TRAJECTORY_FILE = "traj_data.json"
# Increase this if the lines or the rules of `_examine` change, so that older index files are ignored.
_VERSION = 1


class Entry(NamedTuple):
    """The folder of one trial."""

    id: str
    """Path below the split's folder, with slashes."""
    task_type: str
    problem: str | None
    """Reason why the game is not playable, or None."""

    @property
    def playable(self) -> bool:
        return self.problem is None


def read_index(folder: Path) -> tuple[Entry, ...]:
    """Return every trial below `folder`, sorted by path.

    The environments of one process share the index. A process sees a change of the folder itself at once, but changes
    deeper below only if it starts after them.
    """
    return _entries(folder, folder.stat().st_mtime_ns)


def _trials(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return trial to the time stamps and sizes of its folder and files."""
    games = {}
    for parent, _, files in os.walk(folder):
        if GAME_FILE in files:
            # The folder is included, because a file that is added or removed changes only that time stamp.
            stats = [os.stat(parent), *(os.stat(os.path.join(parent, name)) for name in _files(files))]
            games[Path(parent).relative_to(folder).as_posix()] = tuple(
                number for stat in stats for number in (stat.st_mtime_ns, stat.st_size)
            )
    return games


def _files(names: list[str]) -> list[str]:
    return [name for name in (GAME_FILE, TRAJECTORY_FILE) if name in names]


@lru_cache(maxsize=32)
def _entries(folder: Path, changed_at: int) -> tuple[Entry, ...]:
    """Return the entries of a folder that was modified at `changed_at`."""
    index_file = cache_root() / "alfworld" / f"index-{sha256(str(folder).encode()).hexdigest()[:16]}.json"
    stored_lines = _load(index_file)
    trials = _trials(folder)
    lines: dict[str, Any] = {}
    for trial in sorted(trials):
        line = stored_lines.get(trial)
        # A list, because JSON has no tuples.
        if line is None or line[0] != list(trials[trial]):
            task_type, problem = _examine(folder, trial)
            line = [list(trials[trial]), task_type, problem]
        lines[trial] = line
    # Every process reads the index, but only the first one after a change has to write it.
    if lines != stored_lines:
        _save(index_file, {"version": _VERSION, "folder": str(folder), "trials": lines})
    return tuple(Entry(trial, line[1], line[2]) for trial, line in lines.items())


def _examine(folder: Path, trial: str) -> tuple[str, str | None]:
    """Return (task type, reason why the game is not playable, or None).

    These are the rules of alfworld's own environment, applied to the path below `folder`.
    """
    try:
        task_type = str(_mapping(folder / trial / TRAJECTORY_FILE).get("task_type", ""))
        game = _mapping(folder / trial / GAME_FILE)
    except FileNotFoundError:
        return "", f"without {TRAJECTORY_FILE}"
    except (OSError, ValueError):
        return "", "unreadable"
    if "movable" in trial or task_type not in TASK_TYPES:
        return task_type, "of an unsupported task type"
    if "Sliced" in trial:
        return task_type, "with sliced objects"
    if not game.get("solvable"):
        return task_type, "unsolvable or not known to be solvable"
    return task_type, None


def _mapping(path: Path) -> Mapping[str, Any]:
    read = parse_json(read_named(path))
    if not isinstance(read, dict):
        raise ValueError(f"{path} must contain a JSON object, got {type(read).__name__}")
    return read


def _load(path: Path) -> dict[str, Any]:
    """Return the trials of an index file. Empty if the file is missing, damaged or of another version."""
    try:
        read = _mapping(path)
    except (OSError, ValueError):
        return {}
    trials = read.get("trials")
    if read.get("version") != _VERSION or not isinstance(trials, dict):
        return {}
    return {
        trial: line
        for trial, line in trials.items()
        if isinstance(line, list) and len(line) == 3 and isinstance(line[1], str)
    }


def _save(path: Path, content: Mapping[str, Any]) -> None:
    """Store the index. If the folder cannot be written, only the next scan takes longer."""
    with suppress(OSError):
        write_atomically(path, json.dumps(content))
