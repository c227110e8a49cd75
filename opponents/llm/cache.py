"""Answers of language models on disk: one SQLite file for all processes and threads."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from mage_envs.cache import VARIABLE, cache_root

LOCK_SECONDS = 60.0
"""How long a process waits for another one's write."""
SCHEMA = """CREATE TABLE IF NOT EXISTS checked_answers
(key TEXT PRIMARY KEY, answer TEXT NOT NULL, sha256 TEXT NOT NULL) WITHOUT ROWID"""
_LOG = logging.getLogger(__name__)


MOST_TOKENS = 10**8
"""The largest count of tokens that is believed; more than a hundred times what any model reads or writes."""


class ServerAnswer(NamedTuple):
    """What a model said, and what it cost when it was asked."""

    text: str
    truncated: bool
    prompt_tokens: int
    completion_tokens: int
    no_text: str | None = None
    """Why there is no text, as in `Completion`. Such an answer is not kept."""


def cache_path() -> Path:
    """`$MAGE_ENVS_CACHE/llm.sqlite`, else `~/.cache/mage-envs/llm.sqlite`."""
    return cache_root() / "llm.sqlite"


class AnswerCache:
    """Answers by the digest of their request. The first answer to a request stays; a process may be forked at any time.

    Each is kept with a checksum; a damaged one is passed over with a warning in the log, and replaced. Every method
    raises OSError with the remedy for a file that is damaged or cannot be used.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = Lock()
        self._pid = 0
        self._connection: sqlite3.Connection
        with self._using():
            pass  # a file that cannot be used is told of now, not in the middle of a game

    def get(self, key: str) -> ServerAnswer | None:
        with self._using() as connection:
            return self._read(connection, key)

    def add(self, key: str, answer: ServerAnswer) -> ServerAnswer:
        """Keeps `answer` unless there is one already; returns the one that is kept."""
        text = json.dumps(answer)
        with self._using() as connection:
            row = (key, text, _checksum(key, text))
            connection.execute("INSERT OR IGNORE INTO checked_answers VALUES (?, ?, ?)", row)
            kept = self._read(connection, key)
            if kept is None:
                connection.execute("REPLACE INTO checked_answers VALUES (?, ?, ?)", row)
            return answer if kept is None else kept

    def __len__(self) -> int:
        with self._using() as connection:
            count: int = connection.execute("SELECT COUNT(*) FROM checked_answers").fetchone()[0]
            return count

    def close(self) -> None:
        """Closes the file; the next use opens it again."""
        with self._lock:
            if self._pid == os.getpid():
                self._connection.close()
            self._pid = 0

    def _read(self, connection: sqlite3.Connection, key: str) -> ServerAnswer | None:
        row = connection.execute("SELECT answer, sha256 FROM checked_answers WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        text, checksum = row
        if not isinstance(text, str) or checksum != _checksum(key, text):
            _LOG.warning("%s: the answer %s is damaged; it is passed over and asked for again.", self.path, key[:16])
            return None
        answer = ServerAnswer(*json.loads(text))
        return answer if _sound(answer) else None

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        """This process's connection: SQLite's must not cross a fork."""
        with self._lock:
            try:
                if self._pid != os.getpid():
                    self._connection = self._open()
                    self._pid = os.getpid()
                yield self._connection
            except (sqlite3.Error, FileExistsError, PermissionError, NotADirectoryError) as error:
                raise self._unusable(error) from error

    def _open(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self.path, timeout=LOCK_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute(SCHEMA)
        except BaseException:
            connection.close()
            raise
        weakref.finalize(self, _close, connection, os.getpid())
        return connection

    def _unusable(self, error: Exception) -> OSError:
        return OSError(
            f"The cache of models' answers, {self.path}, cannot be used ({error}). Delete the file, name another "
            f"folder in {VARIABLE}, or switch it off with cache=off."
        )


def _sound(answer: ServerAnswer) -> bool:
    """Return False for what earlier versions kept: answers without text, and counts of any size."""
    counted = max(answer.prompt_tokens, answer.completion_tokens) <= MOST_TOKENS
    return counted and bool(answer.text.strip() or answer.truncated)


def _checksum(key: str, text: str) -> str:
    return sha256(f"{key} {text}".encode()).hexdigest()


def _close(connection: sqlite3.Connection, pid: int) -> None:
    """Closes a connection in the process that opened it."""
    if os.getpid() == pid:
        connection.close()
