"""The transcripts in the page: gzip-compressed blocks of a few meta-episodes each, unpacked where one is opened."""

from __future__ import annotations

import base64
import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

_RAW = 400_000
"""Bytes of JSON that a block is closed after: it unpacks in some milliseconds."""
_MARGIN = 0.98


class Pages(Mapping[int, bytes]):
    """The JSON of meta-episodes by their index, compressed in memory: a run may have 10,000 of them."""

    def __init__(self, compressed: Mapping[int, bytes]) -> None:
        self._compressed = compressed

    def __getitem__(self, index: int) -> bytes:
        return zlib.decompress(self._compressed[index])

    def __iter__(self) -> Iterator[int]:
        return iter(self._compressed)

    def __len__(self) -> int:
        return len(self._compressed)


class Blocks(NamedTuple):
    """What is embedded of one report."""

    texts: tuple[str, ...]
    """Base64."""
    places: tuple[Mapping[int, int], ...]
    """Per run, index of a meta-episode to the number of its block; those left out are missing."""
    left_out: int

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return sum(map(len, self.texts))


def pack(runs: Sequence[Mapping[int, bytes]], most: int) -> Blocks:
    """All transcripts, or as many of them as `most` bytes hold, evenly spread over each run.

    The mappings give the JSON of a meta-episode by its index. Blocks hold meta-episodes of one run.
    """
    share = 1.0
    while True:
        found = _packed([(run, _spread(run, share)) for run in runs])
        if found.size <= most or share == 0:
            kept = sum(map(len, found.places))
            return found._replace(left_out=sum(map(len, runs)) - kept)
        smaller = share * most / found.size * _MARGIN
        share = smaller if smaller * max(map(len, runs)) >= 1 else 0.0


def _spread(run: Mapping[int, bytes], share: float) -> list[int]:
    """Every n-th index, so that the share is kept."""
    indices = sorted(run)
    count = int(len(indices) * share)
    return [indices[place * len(indices) // count] for place in range(count)]


def _packed(runs: Sequence[tuple[Mapping[int, bytes], Sequence[int]]]) -> Blocks:
    """Pack the meta-episodes of each run that have these indices."""
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
    return base64.b64encode(gzip.compress(b"[" + b",".join(pages) + b"]", 6, mtime=0)).decode()
