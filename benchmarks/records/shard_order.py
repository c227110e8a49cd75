"""Order of the lines in the shards of a finished run: that of the panel, whatever the order of play."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from mage_envs.files.bounded import lines_inside

MAX_UNPACKED_SHARDS = 8
"""Number of unpacked shards in memory. Meta-episodes finish nearly in order, so few shards hold the next lines."""


def sort_shards(
    folder: Path, names: list[str], is_full: Callable[[list[bytes]], bool], write: Callable[[Path, list[bytes]], None]
) -> None:
    """Rewrite shards so that their lines are in the order of their indices, each index once.

    A killed process leaves every line in at least one shard, so the run stays readable and a resumed one sorts again.

    Args:
        folder: Folder of the run.
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
