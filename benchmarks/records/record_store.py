"""Folder of a run: its description, shards of meta-episodes that are written atomically, and the root digest.

RUN/run.json                    schema version, agent, setting (resolved), fingerprint, versions, started, argv
RUN/episodes/00000.jsonl.gz     one line per meta-episode, at most 64 per shard; the last line of an index counts
RUN/root.json                   count, missing, failed, root digest
"""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym

from mage_envs.benchmarks.canonical import canonical, root_of
from mage_envs.benchmarks.records.identity import OtherRun, compare, merge_agents, run_differences
from mage_envs.benchmarks.records.lines import VERSION, EncodedLine, encode_line
from mage_envs.benchmarks.records.schema import RunRecord, SuiteRecord
from mage_envs.benchmarks.records.shard_lines import DamagedLine, read_shard, sort_shards
from mage_envs.files.atomic import drafts_of, write_atomically, write_json
from mage_envs.files.bounded import (
    MAX_FILE_BYTES,
    MAX_UNPACKED_BYTES,
    UnsafeFile,
    copy_inside,
    names_inside,
    read_json_inside,
)
from mage_envs.files.locking import LOCK, FolderLock
from mage_envs.loading.imports import names_from
from mage_envs.secrets import scrub
from mage_envs.wrappers.rollout.failure_log import FILE as FAILURES
from mage_envs.wrappers.rollout.line_schema import MAX_NUMBER, problems_of
from mage_envs.wrappers.rollout.trajectory import Trajectory
from mage_envs.wrappers.rollout.trajectory_json import Line, trajectory_from_json

RUN, ROOT, EPISODES = "run.json", "root.json", "episodes"
CLAIMS = ".claims"
"""File of the meta-episodes that loops are playing, until all are finished."""
SUITE = "suite.json"
"""File in a folder that contains the runs of a suite."""
SHARD_NAME = re.compile(r"[0-9]{5,9}\.jsonl\.gz")
SHARD = 64
"""Maximum number of lines per shard."""
SAVE_INTERVAL_S = 0.5
"""Minimum seconds between two writes of a shard that is not full. A killed run loses only later meta-episodes."""
MAX_LINE_BYTES = MAX_FILE_BYTES // 2
"""Maximum size of a written line, without its seconds, which are far shorter than the rest."""
LEVEL = 3
"""Compression level of gzip. Level 6 would take 2 to 3% of the time of play, and save nearly half of the space."""


class NoRun(ValueError):
    """The folder contains no run, or none that this version can read."""


class BadRecord(ValueError):
    """The run cannot be read, scored or replayed. The message names its folder."""


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Read a run that may come from a stranger: names resolve as in `names_from`, and every error names the folder.

    Raises:
        BadRecord: In place of an error that does not name the folder. A forged option can make any constructor raise,
            so this covers every kind of error that a bad value causes.
    """
    try:
        with names_from(folder / RUN):
            yield
    except (ValueError, LookupError, TypeError, ArithmeticError, RuntimeError, ImportError, gym.error.Error) as error:
        if str(folder) in str(error):
            raise
        raise BadRecord(f"{folder}: {error}") from error


class UnreadableRun(ValueError):
    """The run cannot be resumed, because a part of it cannot be read now. Nothing was changed."""


class Kept(NamedTuple):
    """Part of a meta-episode that root.json needs."""

    digest: str
    failure: str | None


class Shards:
    """Shards of a run, read one after the other. Only digests, failures and damaged lines stay in memory."""

    def __init__(self, folder: Path, on_line: Callable[[Line], object] = lambda line: None) -> None:
        """Read all shards and call `on_line` with each good line; the last line of an index counts. Raise NoRun."""
        self.folder = folder
        self.about = read_about(folder)
        self.kept: dict[int, Kept] = {}
        """Digest and failure of each meta-episode by its index."""
        self.problems: list[DamagedLine] = []
        self.unreadable: list[DamagedLine] = []
        """Problems of files that were not read. They may be sound, so a resumed run must not replace them."""
        self.shards = 0
        try:
            names = names_inside(folder, EPISODES)
        except (OSError, UnsafeFile) as error:
            names = []
            self.unreadable.append(DamagedLine(EPISODES, 0, f"the folder cannot be listed ({error})"))
        # In the order in which they were written, so that later lines replace earlier ones.
        for name in (f"{EPISODES}/{name}" for name in names if name.endswith(".jsonl.gz")):
            file_name = name.partition("/")[2]
            if not SHARD_NAME.fullmatch(file_name):
                self.problems.append(DamagedLine(name, 0, "its name is not that of a shard, such as 00000.jsonl.gz"))
                continue
            # The next number to write, not the count: shards may be missing.
            self.shards = max(self.shards, int(file_name.split(".")[0]) + 1)
            try:
                for line in read_shard(self.folder, name, self.planned, self.problems):
                    self.kept[line["index"]] = Kept(line["digest"], line["failure"])
                    on_line(line)
            except (OSError, UnsafeFile) as error:
                self.unreadable.append(DamagedLine(name, 0, f"the shard cannot be read from here ({error})"))
        self.problems += self.unreadable

    def repair(self) -> None:
        """Remove damaged lines from the shards, so that their meta-episodes count as missing.

        The shard as it was remains as `.damaged` beside the new one. Raise OSError if a shard cannot be read.
        """
        for name in sorted({problem.file for problem in self.problems if problem.line}):
            good = [canonical(line) + b"\n" for line in read_shard(self.folder, name, self.planned, self.problems)]
            copies = (self.folder / f"{name}.damaged{f'-{number}' * (number > 1)}" for number in count(1))
            copy_inside(self.folder, name, next(copy for copy in copies if not os.path.lexists(copy)))
            _write_shard(self.folder / name, good)

    @property
    def planned(self) -> int:
        """Number of meta-episodes of the setting."""
        count: int = self.about["setting"]["meta_episodes"]
        return count

    @property
    def missing(self) -> list[int]:
        """Indices of meta-episodes without a good line."""
        return [index for index in range(self.planned) if index not in self.kept]

    @property
    def failed(self) -> list[int]:
        """Indices of failed meta-episodes."""
        return [index for index, entry in sorted(self.kept.items()) if entry.failure is not None]

    @property
    def finished(self) -> bool:
        """True if a meta-episode was played to its end, or if a damaged line may hold one."""
        return len(self.failed) < len(self.kept) or bool(self.problems)

    def root(self) -> dict[str, Any]:
        """Return the content of root.json."""
        return root_json(self.kept, self.planned)


class Records(Shards):
    """Lines of a run, all of them in memory."""

    def __init__(self, folder: Path) -> None:
        """Read all shards. Raise NoRun if the folder contains no run."""
        # Before super().__init__, which already calls the function below.
        self.lines: dict[int, Line] = {}
        """Last good line of each index."""
        super().__init__(folder, lambda line: self.lines.update({line["index"]: line}))

    def trajectories(self) -> list[Trajectory]:
        """Return the meta-episodes in the order of the panel."""
        return [trajectory_from_json(line) for _, line in sorted(self.lines.items())]


def run_folders(folder: Path) -> list[Path]:
    """Return the folder itself if it contains a run, else all runs below it. Raise NoRun if there are none.

    The controls of a run lie in its folder, and are left out.
    """
    if (folder / RUN).exists():
        return [folder]
    folders = {path.parent for path in folder.rglob(RUN)}
    if not folders:
        # Raises NoRun, with the message for this folder.
        read_about(folder)
    return sorted(candidate for candidate in folders if folders.isdisjoint(candidate.parents))


class Writer:
    """Writer of a run. It writes meta-episodes when they end, in shards that appear when they are full or at the end.

    run.json appears with the first meta-episode, so a run that cannot be played leaves the folder empty. No other
    process can write to the folder until `close` or `give_up`.
    """

    def __init__(self, folder: Path, about: Mapping[str, Any], resume: bool, *, shared: bool = False) -> None:
        """Begin a new run or resume one.

        A run without a finished meta-episode is replaced, unless `resume` continues it.

        Args:
            about: Content of run.json.
            resume: True if a run in the folder may be continued.
            shared: True if the caller holds the lock of the folder during each call.

        Raises:
            OtherRun: If the folder contains other files, a run with other settings, or a run while `resume` is False.
            FolderInUse: If another process writes to the folder.
            OSError: If the folder cannot be written.
        """
        self.folder = folder
        # Through JSON, so that tuples compare equal to the lists of a file; without secrets, as everything written.
        self._about: dict[str, Any] = scrub(json.loads(json.dumps(about)))
        self._open: list[EncodedLine] = []
        self._saved = 0
        """Number of lines of the open shard that are on the disk."""
        self._saved_at = math.inf
        """Time of the last write, or of the first meta-episode."""
        self.kept: dict[int, Kept] = {}
        self.problems: tuple[DamagedLine, ...] = ()
        """Damaged lines of the resumed run. Their meta-episodes are played again."""
        self._shards = 0
        self.planned: int = self._about["setting"]["meta_episodes"]
        with ExitStack() as lock:
            if not shared:
                lock.enter_context(FolderLock(folder))
            self._begin(resume)
            self._lock = lock.pop_all()

    def _begin(self, resume: bool) -> None:
        """Read the folder, and clear it if its run has no finished meta-episode."""
        if not (self.folder / RUN).exists():
            # Files that an earlier attempt may have left before it wrote run.json, and this process's lock.
            own_files = {*(self.folder / name for name in (LOCK, CLAIMS, FAILURES)), *drafts_of(self.folder, RUN)}
            if {*self.folder.iterdir()} - own_files:
                raise OtherRun(f"{self.folder} is not empty and holds no run; choose another folder.")
            return
        shards = Shards(self.folder)
        if resume and shards.unreadable:
            raise UnreadableRun(
                f"{self.folder}: {shards.unreadable[0]}. Nothing was changed. Use --resume when it can be read, or "
                f"choose another folder with --out."
            )
        if resume and (shards.finished or not any(run_differences(shards.about, self._about))):
            compare(shards.about, self._about, self.folder)
            # The folder keeps its description, but the agent may have become better known.
            agent = self._about["agent"]
            self._about = shards.about
            self.confirm(agent)
            self.problems = tuple(problem for problem in shards.problems if problem.line)
            shards.repair()
            self.kept, self._shards = shards.kept, shards.shards
        elif shards.finished:
            raise OtherRun(f"{self.folder} holds a run; resume it with --resume, or choose another folder.")
        else:
            for name in (RUN, ROOT, FAILURES):
                (self.folder / name).unlink(missing_ok=True)
            shutil.rmtree(self.folder / EPISODES, ignore_errors=True)

    @property
    def safe(self) -> int:
        """Number of meta-episodes that are already on the disk."""
        return len(self.kept.keys() - {line.position for line in self._open[self._saved :]})

    @property
    def todo(self) -> list[int]:
        """Indices to play, because they are missing or failed."""
        return [i for i in range(self.planned) if i not in self.kept or self.kept[i].failure is not None]

    def add(self, index: int, trajectory: Trajectory) -> None:
        """Add a finished meta-episode to the open shard."""
        if self._saved_at == math.inf:
            self._start()
            self._saved_at = time.monotonic()
        line = encode_line(index, trajectory)
        # A line that readers refuse would be played again by every resumed run, so it is stored as a failure.
        if len(line.text) > MAX_LINE_BYTES:
            reason = f"record: its line has {len(line.text) >> 20} MB, more than a reader accepts"
            line = encode_line(index, _without_content(trajectory, reason))
        elif (number := next(filter(_is_too_large, _numbers(trajectory)), None)) is not None:
            line = encode_line(index, _without_content(trajectory, f"record: no reader accepts the number {number:g}"))
        self._open.append(line)
        self.kept[index] = Kept(line.digest, line.failure)
        if _is_full([open_line.text for open_line in self._open]):
            self.flush()
        elif time.monotonic() - self._saved_at >= SAVE_INTERVAL_S:
            self._save()

    def confirm(self, agent: Mapping[str, Any]) -> None:
        """Compare what is known of the agent by now with the run, and store it.

        Raises:
            OtherRun: If the run was played by another agent, for example because the server has changed its model.
        """
        recorded = self._about["agent"]
        compare({"agent": recorded}, {"agent": agent}, self.folder)
        merged = merge_agents(recorded, scrub(json.loads(json.dumps(agent))))
        if merged != recorded:
            self._about = {**self._about, "agent": merged}
            if (self.folder / RUN).exists():
                write_json(self.folder / RUN, self._about, sort_keys=True)

    def note_replies(self, how: str) -> None:
        """Store how the replies of a local model are played, before its first meta-episode."""
        if how and self._saved_at == math.inf:
            self._about = {**self._about, "replies": how}

    def flush(self) -> None:
        """Write the open shard to the disk."""
        if not self._open:
            return
        self._save()
        self._open, self._saved = [], 0
        self._shards += 1

    def _save(self) -> None:
        """Write the lines of the open shard, whose file then grows until it is full."""
        _write_shard(self.folder / EPISODES / f"{self._shards:05d}.jsonl.gz", (line.raw() for line in self._open))
        self._saved, self._saved_at = len(self._open), time.monotonic()

    def close(self) -> None:
        """Write the open shard and root.json, and release the folder."""
        try:
            self._start()
            self.flush()
            sort_run(self.folder)
            root = root_json(self.kept, self.planned)
            write_json(self.folder / ROOT, root, sort_keys=True)
        finally:
            self._lock.close()

    def give_up(self) -> None:
        """Close the run after an error. If no meta-episode was played, the folder remains without a run."""
        if self.kept:
            self.close()
        else:
            self._lock.close()

    def _start(self) -> None:
        """Write run.json if it does not exist."""
        if not (self.folder / RUN).exists():
            write_json(self.folder / RUN, self._about, sort_keys=True)
        (self.folder / EPISODES).mkdir(exist_ok=True)


def shard_names(folder: Path) -> list[str]:
    """Return the paths of a run's shards, relative to its folder, in order. Raise OSError or UnsafeFile."""
    return [f"{EPISODES}/{name}" for name in names_inside(folder, EPISODES) if SHARD_NAME.fullmatch(name)]


def sort_run(folder: Path) -> None:
    """Put all lines of a run in the order of its panel."""
    if names := shard_names(folder):
        sort_shards(folder, names, _is_full, _write_shard)


def root_json(entries: Mapping[int, Kept], planned: int) -> dict[str, Any]:
    """Return the content of root.json for a run of `planned` meta-episodes."""
    return {
        "count": len(entries),
        "planned": planned,
        "missing": [index for index in range(planned) if index not in entries],
        "failed": [index for index, entry in sorted(entries.items()) if entry.failure is not None],
        "root": root_of((index, entry.digest) for index, entry in entries.items()),
    }


def read_about(folder: Path) -> dict[str, Any]:
    """Return the content of run.json. Raise NoRun if the file is missing, not valid, or of another version."""
    path = folder / RUN
    try:
        about = read_json_inside(folder, RUN)
    except (FileNotFoundError, NotADirectoryError):
        raise NoRun(
            f"{folder} holds no run: {RUN} does not exist. Make a run with mage eval … --out {folder}."
        ) from None
    except ValueError as error:
        raise NoRun(f"{path} is not readable as a run ({error}).") from error
    # Another version may have other fields, so its number is read before the fields are checked.
    version = about.get("schema") if isinstance(about, dict) else None
    if isinstance(version, int) and version != VERSION:
        raise NoRun(f"{folder} has schema {version}, and this version reads {VERSION}. Install the one that wrote it.")
    if problem := next(problems_of(RunRecord, about), None):
        raise NoRun(f"{path} is not readable as a run ({problem}).")
    read: dict[str, Any] = about
    return read


def _numbers(trajectory: Trajectory) -> Iterator[float]:
    """Yield the numbers of a meta-episode that come from its environment."""
    for step in trajectory.steps:
        yield from (step.reward, step.penalty)
    for episode in trajectory.episodes:
        yield from (episode.reward, episode.value, *episode.metrics.values())


def _is_too_large(number: float) -> bool:
    """Return True if a reader refuses a number. NaN and infinities are stored by name."""
    return MAX_NUMBER < abs(number) < math.inf


def _without_content(trajectory: Trajectory, reason: str) -> Trajectory:
    """Return a meta-episode that cannot be stored as a failure that can."""
    emptied = replace(trajectory, steps=(), episodes=(), seconds=(), opponent_calls=())
    return replace(emptied, failed_reply=None, failure=reason)


def read_suite(folder: Path) -> dict[str, Any] | None:
    """Return the content of suite.json, or None if it does not exist. Raise ValueError if it is not valid."""
    if not (folder / SUITE).exists():
        return None
    suite: dict[str, Any] = read_json_inside(folder, SUITE)
    if problem := next(problems_of(SuiteRecord, suite), None):
        raise ValueError(f"{folder / SUITE} is not readable as a suite ({problem}).")
    for run in suite["runs"]:
        # The pattern allows `..` as a name, so the place itself is compared.
        if not (folder / run["folder"]).resolve().is_relative_to(folder.resolve()):
            raise ValueError(f"{folder / SUITE} names a run outside the folder: {run['folder']!r}.")
    return suite


def _is_full(lines: Sequence[bytes]) -> bool:
    """Return True if a shard must not have further lines."""
    # Readers limit the unpacked size of a shard, so shards of long lines are closed earlier.
    return len(lines) == SHARD or sum(map(len, lines)) > MAX_UNPACKED_BYTES // 4


def _write_shard(path: Path, lines: Iterable[bytes]) -> None:
    """Write a shard atomically."""
    # mtime=0: equal lines must be equal bytes, whenever they are written.
    write_atomically(path, gzip.compress(b"".join(lines), compresslevel=LEVEL, mtime=0))
