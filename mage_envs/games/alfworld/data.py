"""Where games come from: made on the spot, or files in the official layout.

A data set in the official layout is `<root>/json_2.1.1/<folder>/<task>-.../<trial>/` with `game.tw-pddl` and
`traj_data.json`, `<folder>` being `train`, `valid_seen` or `valid_unseen`. Game files are code for the engine: load
only those that you trust.
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

from mage_envs.arguments import nearest_name
from mage_envs.durable import write_atomically
from mage_envs.games.alfworld import maker
from mage_envs.games.alfworld.gamefile import read_game
from mage_envs.games.alfworld.index import GAME_FILE, Entry, read_index
from mage_envs.games.alfworld.plan import NoPlan, shortest_plan
from mage_envs.games.alfworld.scenes import TASK_TYPES, package_folder

FOLDERS: Mapping[str, str] = {
    "train": "train",
    "eval_in_distribution": "valid_seen",
    "eval_out_of_distribution": "valid_unseen",
}
"""Split to its folder."""
RELEASE = "json_2.1.1"
VARIABLE = "ALFWORLD_DATA"


class NoGames(FileNotFoundError):
    """A data set without a game to play."""


class GameSource(ABC):
    """Games that an environment may draw from."""

    _ids: tuple[str, ...]

    def __len__(self) -> int:
        return len(self._ids)

    def task_id(self, index: int) -> str:
        """The id of one of the games, 0 to `len` - 1."""
        return self._ids[index]

    @abstractmethod
    def check(self, task_id: str) -> None:
        """Raises ValueError, with the nearest id, where no game has that one."""

    @abstractmethod
    def category(self, task_id: str) -> str:
        """The game's task type."""

    @abstractmethod
    def load(self, task_id: str) -> Mapping[str, object] | Path:
        """The game, as what its file holds, or its file."""

    @abstractmethod
    def plan(self, task_id: str) -> tuple[str, ...] | None:
        """The commands of a shortest plan, None where none is known."""

    @abstractmethod
    def data_hash(self) -> str:
        """Tells these games apart from all others, to write beside results."""


class MadeGames(GameSource):
    """The generated games of a split."""

    def __init__(self, split: str, task_types: Sequence[str], size: str) -> None:
        package_folder()
        if size not in maker.SIZES:
            raise ValueError(f"size={size!r} is unknown; choose one of: {', '.join(maker.SIZES)}.")
        self._ids = maker.task_ids(split, size, tuple(task_types))

    def check(self, task_id: str) -> None:
        if task_id not in self._ids:
            raise ValueError(
                f"ALFWorld has no task {task_id[:200]!r} here; ids run from {self._ids[0]!r} to {self._ids[-1]!r}."
            )

    def category(self, task_id: str) -> str:
        return task_id.split("/")[2]

    def load(self, task_id: str) -> Mapping[str, object]:
        return _made(task_id).data()

    def plan(self, task_id: str) -> tuple[str, ...]:
        return tuple(_made(task_id).walkthrough)

    def data_hash(self) -> str:
        """Over the ids and the first games, one of each task type: what makes these makes the others."""
        first = {self.category(one): one for one in reversed(self._ids)}
        return sha256(json.dumps([self._ids, [self.load(one) for one in first.values()]]).encode()).hexdigest()[:12]


@lru_cache(maxsize=64)
def _made(task_id: str) -> maker.MadeGame:
    split, size, task_type, index = task_id.split("/")
    return maker.make_game(split, size, task_type, int(index))


class GameFiles(GameSource):
    """The playable games of one split of a data set, in the order of their paths."""

    def __init__(self, split: str, task_types: Sequence[str], root: str | os.PathLike[str]) -> None:
        """Raises NoGames saying what was found instead."""
        self.root = Path(root).expanduser().absolute()
        folder = split_folder(self.root, split)
        if folder is None:
            raise NoGames(
                f"There is no folder {self.root / RELEASE / FOLDERS[split]}. Set {VARIABLE} to the folder that "
                f'alfworld-download filled, give data="PATH", or play without it: data="generated".'
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
        """Over the ids and the contents of all files."""
        told = [(one, sha256(self.load(one).read_bytes()).hexdigest()) for one in self._ids]
        return sha256(json.dumps(told).encode()).hexdigest()[:12]

    def plan(self, task_id: str) -> tuple[str, ...] | None:
        path = self.load(task_id)
        return _plan(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=64)
def _playable(entries: tuple[Entry, ...], task_types: tuple[str, ...]) -> Mapping[str, str]:
    """Id to task type of the games to play, in the order of the ids; shared by environments."""
    return {entry.id: entry.task_type for entry in entries if entry.playable and entry.task_type in task_types}


@lru_cache(maxsize=64)
def _ids(entries: tuple[Entry, ...], task_types: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_playable(entries, task_types))


@lru_cache(maxsize=4096)
def _plan(path: Path, saved_at: int) -> tuple[str, ...] | None:
    """For the file as it was at the time stamp `saved_at`."""
    game = read_game(path)
    try:
        return shortest_plan(game.problem, game.grammar)
    except NoPlan:
        return None


def data_root() -> Path | None:
    """The official data's root that the environment names, None where it names none.

    Read before anything imports alfworld, which sets the variable to a folder of its own.
    """
    named = os.environ.get(VARIABLE)
    return Path(named).expanduser().absolute() if named else None


def split_folder(root: Path, split: str) -> Path | None:
    """Where a data set keeps a split; None where it has no such folder."""
    for folder in (root / RELEASE / FOLDERS[split], root / FOLDERS[split]):
        if folder.is_dir():
            return folder
    return None


def tally(entries: Sequence[Entry]) -> str:
    """How many games there are of which kind, in words."""
    if not entries:
        return "it holds no game.tw-pddl at all"
    counts = Counter(entry.problem or entry.task_type for entry in entries)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))


def write_dataset(
    root: str | os.PathLike[str],
    *,
    size: str = "official-like",
    games_per_task: int = 10,
    splits: Sequence[str] = maker.SPLITS,
    task_types: Sequence[str] = TASK_TYPES,
) -> int:
    """Writes generated games below `root` in the official layout, so that alfworld's own environment plays them too.

    The first `games_per_task` games of each split and task type; returns how many were written.
    """
    count = 0
    for split in splits:
        for task_type in task_types:
            for index in range(games_per_task):
                game = maker.make_game(split, size, task_type, index)
                folder = Path(root) / RELEASE / FOLDERS[split] / game.folder
                write_atomically(folder / "traj_data.json", json.dumps(game.trajectory(), indent=1))
                write_atomically(folder / "initial_state.pddl", game.problem)
                write_atomically(folder / GAME_FILE, json.dumps(game.data()))
                count += 1
    package = package_folder() / "data"
    for name in ("alfred.pddl", "alfred.twl2"):
        write_atomically(Path(root) / "logic" / name, (package / name).read_text("utf-8"))
    return count
