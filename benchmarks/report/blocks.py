"""Transcripts in the page: gzip-compressed blocks of a few meta-episodes each, unpacked when the user opens one."""

from __future__ import annotations

import base64
import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

_RAW = 400_000
"""Size in bytes of JSON at which a block is closed. A block of this size unpacks within milliseconds."""
_MARGIN = 0.98
"""Factor on the share of transcripts that should fit, because their compressed sizes differ."""


class Pages(Mapping[int, bytes]):
    """JSON of meta-episodes by their index, compressed in memory because a run may have 10,000 of them."""

    def __init__(self, compressed: Mapping[int, bytes]) -> None:
        self._compressed = compressed

    def __getitem__(self, index: int) -> bytes:
        return zlib.decompress(self._compressed[index])

    def __iter__(self) -> Iterator[int]:
        return iter(self._compressed)

    def __len__(self) -> int:
        return len(self._compressed)


class Blocks(NamedTuple):
    """Embedded transcripts of a report."""

    texts: tuple[str, ...]
    """Blocks in Base64."""
    places: tuple[Mapping[int, int], ...]
    """For each run, index of a meta-episode to the number of its block. Omitted meta-episodes are missing."""
    left_out: int

    @property
    def size(self) -> int:
        """Size in the file in bytes."""
        return sum(map(len, self.texts))


def pack(runs: Sequence[Mapping[int, bytes]], max_bytes: int) -> Blocks:
    """Pack all transcripts, or as many as fit into `max_bytes` bytes, evenly spread over each run.

    `runs` has one mapping per run, from index to the JSON of a meta-episode. A block has meta-episodes of one run only.
    """
    share = 1.0
    # The compressed size is known only after packing, so the share is reduced until the blocks fit.
    while True:
        blocks = _pack_runs([(run, _spread(run, share)) for run in runs])
        if blocks.size <= max_bytes or share == 0:
            embedded = sum(map(len, blocks.places))
            return blocks._replace(left_out=sum(map(len, runs)) - embedded)
        smaller = share * max_bytes / blocks.size * _MARGIN
        # Below one transcript of the longest run, nothing is embedded.
        share = smaller if smaller * max(map(len, runs)) >= 1 else 0.0


def _spread(run: Mapping[int, bytes], share: float) -> list[int]:
    """Return evenly spread indices, as many as the share of the run."""
    indices = sorted(run)
    count = int(len(indices) * share)
    return [indices[k * len(indices) // count] for k in range(count)]


def _pack_runs(runs: Sequence[tuple[Mapping[int, bytes], Sequence[int]]]) -> Blocks:
    """Pack the meta-episodes with the given indices of each run."""
    texts: list[str] = []
    places: list[dict[int, int]] = []
    for run, indices in runs:
        mine: dict[int, int] = {}
        waiting: list[bytes] = []
        size = 0
        for index in indices:
            page = run[index]
            mine[index] = len(texts)
            waiting.append(page)
            size += len(page)
            if size >= _RAW:
                texts.append(_block(waiting))
                waiting, size = [], 0
        if waiting:
            texts.append(_block(waiting))
        places.append(mine)
    return Blocks(tuple(texts), tuple(places), 0)


def _block(pages: Sequence[bytes]) -> str:
    # mtime=0: the same records always make the same file.
    return base64.b64encode(gzip.compress(b"[" + b",".join(pages) + b"]", 6, mtime=0)).decode()
