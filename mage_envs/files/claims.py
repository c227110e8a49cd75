"""`Claims`: numbered pieces of work, each done by one thread of one process at a time. The processes share one file."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path
from weakref import WeakValueDictionary, finalize

from mage_envs.files.atomic import NO_FOLLOW
from mage_envs.files.locking import lock_byte, unlock_byte

OPEN, DONE, FAILED = b"0", b"1", b"f"
"""States of a piece. A failed piece is open again for the next process that calls `update`."""


class Claims:
    """Claims of this process. The file has the state of each piece as one byte.

    A claim is a lock beyond the end of the file. The system drops it if the process dies.
    """

    def __init__(self, path: Path, count: int) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | NO_FOLLOW, 0o644)
        self.count = count
        self._held: set[int] = set()
        # Closing the file drops the claims of this object alone, because there is one per process and file.
        finalize(self, os.close, self._file)
        # The locks of the system separate processes only.
        self._threads = threading.Lock()

    def update(self, done: Iterable[int]) -> None:
        """Write the states of all pieces from the records. The caller holds the lock of the folder."""
        states = bytearray(OPEN * self.count)
        for index in done:
            states[index : index + 1] = DONE
        os.pwrite(self._file, states, 0)

    def claim(self, index: int) -> bool:
        """Claim a piece. Return False if it is done, failed, or claimed by another thread or process."""
        with self._threads:
            if index in self._held or not lock_byte(self._file, index):
                return False
            if os.pread(self._file, 1, index) != OPEN:
                unlock_byte(self._file, index)
                return False
            self._held.add(index)
            return True

    def release(self, index: int, state: bytes = OPEN) -> None:
        """End the claim of a piece with its new state. A second call does nothing."""
        with self._threads:
            if index not in self._held:
                return
            self._held.remove(index)
            os.pwrite(self._file, state, index)
            unlock_byte(self._file, index)

    def open_pieces(self) -> list[int]:
        """Return the pieces that are neither done nor failed, claimed or not."""
        states = os.pread(self._file, self.count, 0)
        return [index for index in range(self.count) if states[index : index + 1] == OPEN]

    def is_claimed(self, index: int) -> bool:
        """Return True if a thread or process works on a piece."""
        with self._threads:
            if index in self._held or not lock_byte(self._file, index):
                return True
            unlock_byte(self._file, index)
            return False


_CLAIMS: WeakValueDictionary[tuple[int, Path], Claims] = WeakValueDictionary()
_LOCK = threading.Lock()


def open_claims(path: Path, count: int) -> Claims:
    """Return the claims of a file, which is created if needed.

    There is one object per process and file, because the system drops all locks of a process if it closes the file.
    """
    key = (os.getpid(), path.absolute())
    with _LOCK:
        claims = _CLAIMS.get(key)
        if claims is None or not path.exists():
            claims = _CLAIMS[key] = Claims(path, count)
        return claims
