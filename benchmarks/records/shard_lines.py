"""Lines of a shard, which may come from a stranger or from a disk with faults."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from mage_envs.benchmarks.records.lines import digest
from mage_envs.benchmarks.records.schema import LineRecord
from mage_envs.files.bounded import DamagedFile, lines_inside, parse_json
from mage_envs.wrappers.rollout.line_schema import problems_of
from mage_envs.wrappers.rollout.trajectory_json import Line

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
        folder: Folder of the run.
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
