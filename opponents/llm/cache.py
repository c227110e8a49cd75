"""Cache of language models' answers on disk: one SQLite file for all processes and threads."""

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

from mage_envs.files.cache import VARIABLE, cache_root

LOCK_SECONDS = 60.0
"""Timeout in seconds for another process's write."""
SCHEMA = """CREATE TABLE IF NOT EXISTS checked_answers
(key TEXT PRIMARY KEY, answer TEXT NOT NULL, sha256 TEXT NOT NULL) WITHOUT ROWID"""
_LOG = logging.getLogger(__name__)


MOST_TOKENS = 10**8
"""Largest plausible count of tokens of one call: more than a hundred times the context of any model."""


class ServerAnswer(NamedTuple):
    """A model's answer with its counts of tokens."""

    text: str
    truncated: bool
    prompt_tokens: int
    completion_tokens: int
    no_text: str | None = None
    """Reason for a missing text, as in `Completion`, else None. Answers without text are not stored."""
    reasoning: str | None = None
    """Reasoning that the server sent beside the text, or None."""
    model: str | None = None
    """Id of the model in the server's answer, or None."""


def cache_path() -> Path:
    """Return `$MAGE_ENVS_CACHE/llm.sqlite`, or `~/.cache/mage-envs/llm.sqlite` if the variable is not set."""
    return cache_root() / "llm.sqlite"


class AnswerCache:
    """A store of answers by the digest of their request, which is safe across threads, processes and forks.

    The first answer to a request is final. Each answer is stored with a checksum. A damaged answer is ignored with a
    warning in the log, and replaced. Every method raises OSError, with the remedy, if the file cannot be used.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = Lock()
        self._pid = 0
        self._connection: sqlite3.Connection
        # Open the file now, so that an unusable one raises here and not in the middle of a game.
        with self._using():
            pass

    def get(self, key: str) -> ServerAnswer | None:
        """Return the stored answer to a request, or None."""
        with self._using() as connection:
            return self._read(connection, key)

    def add(self, key: str, answer: ServerAnswer) -> ServerAnswer:
        """Store `answer` unless the request has one already; return the stored answer."""
        text = json.dumps(answer)
        with self._using() as connection:
            row = (key, text, _checksum(key, text))
            # Two processes may answer one request at the same time. Both must play on with the same answer, so the
            # insert does not replace, and the stored row is read back.
            connection.execute("INSERT OR IGNORE INTO checked_answers VALUES (?, ?, ?)", row)
            stored_answer = self._read(connection, key)
            # The row exists but is damaged.
            if stored_answer is None:
                connection.execute("REPLACE INTO checked_answers VALUES (?, ?, ?)", row)
            return answer if stored_answer is None else stored_answer

    def __len__(self) -> int:
        with self._using() as connection:
            count: int = connection.execute("SELECT COUNT(*) FROM checked_answers").fetchone()[0]
            return count

    def close(self) -> None:
        """Close the file; the next use opens it again."""
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
            _LOG.warning("%s: the answer %s is damaged. It is ignored and requested again.", self.path, key[:16])
            return None
        return ServerAnswer(*json.loads(text))

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection of this process, with the lock held."""
        with self._lock:
            try:
                # SQLite connections must not be used across a fork, so a child process opens its own.
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
            # In WAL mode readers do not wait for a writer. NORMAL may lose the last answers at a power failure but
            # never damages the file, which is enough for a cache.
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
            f"The cache of models' answers, {self.path}, cannot be used ({error}). Delete the file, set {VARIABLE} to "
            "another folder, or disable the cache with cache=off."
        )


def _checksum(key: str, text: str) -> str:
    return sha256(f"{key} {text}".encode()).hexdigest()


def _close(connection: sqlite3.Connection, pid: int) -> None:
    """Close a connection, unless this is a forked copy of the process that opened it."""
    if os.getpid() == pid:
        connection.close()
