"""Sources of games: generated games, or files in the official layout.

A data set in the official layout is `<root>/json_2.1.1/<folder>/<task>-.../<trial>/` with `game.tw-pddl` and
`traj_data.json`. `<folder>` is `train`, `valid_seen` or `valid_unseen`. Game files may contain code, which
the stock engine executes: load only files that you trust.
"""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from mage_envs.games.alfworld import maker
from mage_envs.games.alfworld.gamefile import read_game
from mage_envs.games.alfworld.index import GAME_FILE, Entry, read_index
from mage_envs.games.alfworld.plan import NoPlan, shortest_plan
from mage_envs.games.alfworld.scenes import package_folder
from mage_envs.loading.arguments import nearest_name

FOLDERS: Mapping[str, str] = {
    "train": "train",
    "eval_in_distribution": "valid_seen",
    "eval_out_of_distribution": "valid_unseen",
}
"""Split to its folder."""
RELEASE = "json_2.1.1"
VARIABLE = "ALFWORLD_DATA"


class NoGames(FileNotFoundError):
    """Error for a data set that has no playable game."""


class GameSource(ABC):
    """Games that an environment may draw from."""

    _ids: tuple[str, ...]

    def __len__(self) -> int:
        return len(self._ids)

    def task_id(self, index: int) -> str:
        """Return the id of one of the games, 0 to `len` - 1."""
        return self._ids[index]

    @abstractmethod
    def check(self, task_id: str) -> None:
        """Raise ValueError with the nearest id if no game has that id."""

    @abstractmethod
    def category(self, task_id: str) -> str:
        """Return the game's task type."""

    @abstractmethod
    def load(self, task_id: str) -> Mapping[str, object] | Path:
        """Return the game as the content of its file, or as the path of its file."""

    @abstractmethod
    def plan(self, task_id: str) -> tuple[str, ...] | None:
        """Return the commands of a shortest plan, or None if no plan is known."""

    @abstractmethod
    def data_hash(self) -> str:
        """Return a hash that identifies these games, for records."""


class MadeGames(GameSource):
    """The generated games of a split."""

    def __init__(self, split: str, task_types: Sequence[str], size: str) -> None:
        """List the games.

        Args:
            split: One of `maker.SPLITS`.
            task_types: Task types to keep.
            size: One of `maker.SIZES`.

        Raises:
            ValueError: If the size is unknown.
            ImportError: If alfworld is not installed.
        """
        # Raises ImportError here, before the environment exists, if alfworld is not installed.
        package_folder()
        if size not in maker.SIZES:
            raise ValueError(f"size={size!r} is unknown; choose one of: {', '.join(maker.SIZES)}.")
        self._ids = maker.task_ids(split, size, tuple(task_types))

    def check(self, task_id: str) -> None:
        if task_id not in self._ids:
            raise ValueError(
                f"ALFWorld has no task {task_id[:200]!r} in this split. "
                f"Its ids run from {self._ids[0]!r} to {self._ids[-1]!r}."
            )

    def category(self, task_id: str) -> str:
        return task_id.split("/")[2]

    def load(self, task_id: str) -> Mapping[str, object]:
        return _make_game(task_id).data()

    def plan(self, task_id: str) -> tuple[str, ...]:
        return tuple(_make_game(task_id).walkthrough)

    def data_hash(self) -> str:
        """Return a hash of the ids and of the first game of each task type."""
        # Six games are enough, because the same code and package files make all the others.
        first_ids = {self.category(task_id): task_id for task_id in reversed(self._ids)}
        return sha256(
            json.dumps([self._ids, [self.load(task_id) for task_id in first_ids.values()]]).encode()
        ).hexdigest()[:12]


@lru_cache(maxsize=64)
def _make_game(task_id: str) -> maker.MadeGame:
    split, size, task_type, index = task_id.split("/")
    return maker.make_game(split, size, task_type, int(index))


class GameFiles(GameSource):
    """The playable games of one split of a data set, sorted by path."""

    def __init__(self, split: str, task_types: Sequence[str], root: str | os.PathLike[str]) -> None:
        """Read the index of the split.

        Args:
            split: Split of the data set, a key of `FOLDERS`.
            task_types: Task types to keep.
            root: Folder of the data set.

        Raises:
            NoGames: If the split has no playable game. The message counts the others.
        """
        self.root = Path(root).expanduser().absolute()
        folder = find_split_folder(self.root, split)
        if folder is None:
            raise NoGames(
                f"There is no folder {self.root / RELEASE / FOLDERS[split]}. Set {VARIABLE} to the folder of "
                f'alfworld-download, pass data="PATH", or use data="generated".'
            )
        entries = read_index(folder)
        self._folder = folder
        self._types = _playable(entries, tuple(task_types))
        self._ids = _ids(entries, tuple(task_types))
        if not self._ids:
            raise NoGames(
                f"The folder {folder} has no game of the task types {', '.join(task_types)}: {tally(entries)}."
            )

    def check(self, task_id: str) -> None:
        if task_id not in self._types:
            hint = nearest_name(task_id[:300], self._ids) or f" Ids look like {self._ids[0]!r}."
            raise ValueError(f"ALFWorld has no task {task_id[:300]!r} in {self.root}.{hint}")

    def category(self, task_id: str) -> str:
        return self._types[task_id]

    def load(self, task_id: str) -> Path:
        return self._folder / task_id / GAME_FILE

    def data_hash(self) -> str:
        """Return a hash of the ids and the contents of all files."""
        hashes = [(task_id, sha256(self.load(task_id).read_bytes()).hexdigest()) for task_id in self._ids]
        return sha256(json.dumps(hashes).encode()).hexdigest()[:12]

    def plan(self, task_id: str) -> tuple[str, ...] | None:
        path = self.load(task_id)
        return _plan(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=64)
def _playable(entries: tuple[Entry, ...], task_types: tuple[str, ...]) -> Mapping[str, str]:
    """Return id to task type of the games to play, in the order of the ids. Environments share it."""
    return {entry.id: entry.task_type for entry in entries if entry.playable and entry.task_type in task_types}


@lru_cache(maxsize=64)
def _ids(entries: tuple[Entry, ...], task_types: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_playable(entries, task_types))


# The time stamp is part of the key, so that a changed file is planned again.
@lru_cache(maxsize=4096)
def _plan(path: Path, saved_at: int) -> tuple[str, ...] | None:
    """Return the plan of a file that was modified at `saved_at`."""
    game = read_game(path)
    try:
        return shortest_plan(game.problem, game.grammar)
    except NoPlan:
        return None


def data_root() -> Path | None:
    """Return the root of the official data from the variable `ALFWORLD_DATA`, or None if it is not set.

    Call this before any import of alfworld, which sets the variable to its own folder.
    """
    path = os.environ.get(VARIABLE)
    return Path(path).expanduser().absolute() if path else None


def find_split_folder(root: Path, split: str) -> Path | None:
    """Return the folder of a split in a data set, or None if there is none."""
    # Users name either the folder of the release or the one above it.
    for folder in (root / RELEASE / FOLDERS[split], root / FOLDERS[split]):
        if folder.is_dir():
            return folder
    return None


def tally(entries: Sequence[Entry]) -> str:
    """Return the number of games of each kind, in words."""
    if not entries:
        return "it contains no game.tw-pddl"
    counts = Counter(entry.problem or entry.task_type for entry in entries)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
