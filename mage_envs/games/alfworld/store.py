"""Compiled games, cached in memory and on disk, so that each is translated only once."""

from __future__ import annotations

import json
import os
import threading
import warnings
import zlib
from collections import OrderedDict
from hashlib import sha256
from pathlib import Path
from typing import Any

from mage_envs.files.atomic import write_atomically
from mage_envs.files.cache import cache_root
from mage_envs.games.alfworld import packages
from mage_envs.games.alfworld.compiled import CompiledGame
from mage_envs.games.alfworld.compiler import compile_game, game_key
from mage_envs.games.alfworld.gamefile import GameLike, read_game
from mage_envs.games.alfworld.library import LibraryPool

_MAGIC = b"mage-envs alfworld game 1"
_KEPT = 64
"""Maximum compiled games in memory, in addition to those that engines hold."""


class GameStore:
    """The compiled games of this process."""

    def __init__(self, pool: LibraryPool) -> None:
        self.pool = pool
        self._games: OrderedDict[str, CompiledGame] = OrderedDict()
        self._lock = threading.Lock()

    def load(self, game: GameLike) -> CompiledGame:
        """Return the game. Compile it unless memory or the cache folder has it. Raise GameFileError, ImportError."""
        # First of all: a missing engine is reported before any fault of the file.
        packages.library_path()
        text = read_game(game)
        key = game_key(text)
        with self._lock:
            if key in self._games:
                self._games.move_to_end(key)
                return self._games[key]
        # The translator runs in one thread at a time. Look again, because another thread may have compiled the game.
        with packages.lock:
            compiled = self._games.get(key)
            if compiled is None:
                path = cache_root() / "alfworld" / f"{key}.game"
                compiled = _read(path, key)
            if compiled is None:
                compiled, content = compile_game(key, text, self.pool)
                _write(path, content, compiled.sas)
        with self._lock:
            self._games[key] = compiled
            while len(self._games) > _KEPT:
                self._games.popitem(last=False)
        return compiled

    def replace_lock(self) -> None:
        """Replace the lock in a child process: another thread of the parent may have held it during the fork."""
        self._lock = threading.Lock()


def _read(path: Path, key: str) -> CompiledGame | None:
    """Return the game of a cache file, or None if the file is missing, damaged or of another key.

    A damaged planning task would end the process, so a file is used only if its checksum fits.
    """
    try:
        stored = path.read_bytes()
    except OSError:
        return None
    head, _, body = stored.partition(b"\n")
    words = head.rsplit(b" ", 2)
    if len(words) != 3 or words[:2] != [_MAGIC, _digest(key, words[2], body)] or not words[2].isdigit():
        return None
    size = int(words[2])
    return CompiledGame(key, json.loads(zlib.decompress(body[:size])), body[size:])


def _write(path: Path, content: dict[str, Any], sas: bytes) -> None:
    """Store a compiled game. If this fails, log a warning: the next process has to translate the game again."""
    packed = zlib.compress(json.dumps(content).encode())
    size = str(len(packed)).encode()
    body = packed + sas
    try:
        write_atomically(path, b" ".join((_MAGIC, _digest(str(path.stem), size, body), size)) + b"\n" + body)
    except OSError as error:
        warnings.warn(
            f"Compiled games cannot be stored in {path.parent} ({error}); set MAGE_ENVS_CACHE to a folder that can be "
            "written. Otherwise, each process translates each game again.",
            RuntimeWarning,
            stacklevel=4,
        )


def _digest(key: str, size: bytes, body: bytes) -> bytes:
    return sha256(b"\n".join((key.encode(), size, body))).hexdigest().encode()


POOL = LibraryPool()
STORE = GameStore(POOL)
# A forked worker continues with the games and copies of its parent, but with new locks.
os.register_at_fork(after_in_child=POOL.replace_lock)
os.register_at_fork(after_in_child=STORE.replace_lock)
