"""Lines of a shard, which may come from a stranger or from a disk with faults."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from mage_envs.benchmarks.records.lines import digest
from mage_envs.benchmarks.records.schema import LineRecord
from mage_envs.files.bounded import DamagedFile, lines_inside, parse_json
from mage_envs.wrappers.rollout.line_schema import problems_of
from mage_envs.wrappers.rollout.trajectory_json import Line

MAX_UNPACKED_SHARDS = 8
"""Number of unpacked shards in memory. Meta-episodes finish nearly in order, so few shards hold the next lines."""


def sort_shards(
    folder: Path, names: list[str], is_full: Callable[[list[bytes]], bool], write: Callable[[Path, list[bytes]], None]
) -> None:
    """Rewrite shards so that their lines are in the order of their indices, each index once.

    A killed process leaves every line in at least one shard, so the run stays readable and a resumed one sorts again.

    Args:
        names: Shards in the order in which they were written, relative to `folder`, with undamaged lines.
        is_full: Function that returns True if a shard must not have further lines.
        write: Function that writes the lines of a shard atomically.
    """
    places: dict[int, tuple[int, int]] = {}
    count = 0
    for shard, name in enumerate(names):
        for number, raw in enumerate(lines_inside(folder, name)):
            # The last line of an index counts.
            places[json.loads(raw)["index"]] = (shard, number)
            count += 1
    order = [places[index] for index in sorted(places)]
    if count == len(order) and all(position < next_position for position, next_position in pairwise(order)):
        return
    first_path, last_path = ((folder / name) for name in (names[0], names[-1]))
    free = int(last_path.name.split(".")[0]) + 1
    written: list[Path] = []
    for lines in _fill_shards(folder, names, order, is_full):
        written.append(first_path.with_name(f"{free + len(written):05d}.jsonl.gz"))
        write(written[-1], lines)
    # Only now: until here, the old shards have all lines.
    for name in names:
        (folder / name).unlink()
    for number, path in enumerate(written):
        path.replace(path.with_name(f"{number:05d}.jsonl.gz"))


def _fill_shards(
    folder: Path, names: list[str], order: list[tuple[int, int]], is_full: Callable[[list[bytes]], bool]
) -> Iterator[list[bytes]]:
    """Yield the lines of each new shard."""

    @lru_cache(MAX_UNPACKED_SHARDS)
    def lines_of(shard: int) -> list[bytes]:
        return list(lines_inside(folder, names[shard]))

    lines: list[bytes] = []
    for shard, number in order:
        lines.append(lines_of(shard)[number])
        if is_full(lines):
            yield lines
            lines = []
    if lines:
        yield lines


MAX_PROBLEMS = 100
"""Maximum number of damaged lines per shard that are described. A shard of 5 kB can have a million."""


class DamagedLine(NamedTuple):
    """Line of a shard that was changed or cannot be read."""

    file: str
    """Path relative to the run's folder."""
    line: int
    """Line number from 1, or 0 for the whole file."""
    reason: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.reason}"


def read_shard(folder: Path, name: str, planned: int, problems: list[DamagedLine]) -> Iterator[Line]:
    """Yield the good lines of a shard.

    Args:
        name: Shard, relative to the folder.
        planned: Number of meta-episodes of the run.
        problems: List to which the damaged lines are added when the shard was read to its end.

    Raises:
        OSError: If the shard cannot be read now.
        UnsafeFile: If it must not be read.
    """
    damaged: list[DamagedLine] = []
    number = 0
    try:
        for number, raw in enumerate(lines_inside(folder, name), start=1):
            line = _parse(raw)
            if not isinstance(line, str) and line["index"] not in range(planned):
                line = f"index {line['index']} is not of this panel of {planned}"
            if not isinstance(line, str):
                yield line
            elif len(damaged) < MAX_PROBLEMS:
                damaged.append(DamagedLine(name, number, line))
            elif len(damaged) == MAX_PROBLEMS:
                damaged.append(DamagedLine(name, number, "further lines are damaged"))
    except DamagedFile as error:
        damaged.append(DamagedLine(name, number + 1, f"the shard cannot be read from here ({error})"))
    problems += damaged


def _parse(raw: bytes) -> Line | str:
    """Return the meta-episode of a line, or a description of its damage."""
    try:
        line: Line = parse_json(raw)
        if problem := next(problems_of(LineRecord, line), None):
            return f"no record of a meta-episode ({problem})"
        stated, computed = line["digest"], digest(line)
    except ValueError as error:
        return f"no record of a meta-episode ({error})"
    if stated == computed:
        return line
    return f"its digest is {computed[:12]}, but the line states {stated[:12]}: it was changed"
