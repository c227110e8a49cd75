"""Findings about the engines, data and caches of the games on this machine, which `mage doctor` reports.

They load no engine and start no process. Those of a game are in its record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mage_envs.files.cache import cache_root
from mage_envs.game_record import RECORDS
from mage_envs.loading.extras import version_or
from mage_envs.loading.imports import load_entry


def _packages() -> Iterator[tuple[str, str]]:
    yield "open_spiel", version_or("open_spiel", "missing; it is a core dependency: pip install mage-envs")
    yield "torch", version_or("torch", 'not installed; pip install "mage-envs[train]" brings the trainer')


def _cache() -> Iterator[tuple[str, str]]:
    folder = cache_root()
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    size = sum(path.stat().st_size for path in files) / 2**20
    yield "cache", f"{folder}: {len(files)} files, {size:.1f} MB; it can be deleted at any time"


def _games() -> Iterator[tuple[str, str]]:
    for record in RECORDS.values():
        if record.doctor:
            yield from load_entry(record.doctor)()


CHECKS: tuple[Callable[[], Iterator[tuple[str, str]]], ...] = (_packages, _games, _cache)
"""Checks in the order of the report."""
