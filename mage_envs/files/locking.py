"""`FolderLock`: one process at a time writes into a folder."""

from __future__ import annotations

import os
import re
import stat
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

if sys.platform != "win32":
    import fcntl

LOCK = ".lock"
"""Name of the file that holds the process id of a folder's writer."""

MAX_PROCESS_ID_BYTES = 20
PROCESS_ID = re.compile(rb"[0-9]{1,19}\n?")
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Flags of opening that Windows does not have."""


class FolderInUse(OSError):
    """Error if another process writes into the folder."""


class FolderLock:
    """A lock on a folder, held by this process until `release` or until the process ends in any way.

    The system drops the lock of a killed process, so that a file that is left behind never blocks. The lock belongs to
    the process (POSIX record locks): child processes do not inherit it. On Windows nothing is locked.
    """

    def __init__(self, folder: Path) -> None:
        """Create the folder if needed, and lock it. Raises FolderInUse, or OSError if it cannot be written."""
        self._path = folder / LOCK
        folder.mkdir(parents=True, exist_ok=True)
        while True:
            self._file = self._open()
            try:
                self._lock(folder)
                # The previous holder may have removed this file between `open` and `lock`. Then lock a new file.
                if self._is_there():
                    break
            except BaseException:
                os.close(self._file)
                raise
            os.close(self._file)
        os.ftruncate(self._file, 0)
        os.lseek(self._file, 0, os.SEEK_SET)
        os.write(self._file, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """End the lock. A second call does nothing."""
        if self._file >= 0:
            # Remove the file before the lock ends: afterwards it could be the next holder's. The folder may be gone.
            with suppress(OSError):
                self._path.unlink()
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def _open(self) -> int:
        """Open or create the file. Raise OSError if it is another file, which the process id would overwrite."""
        try:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | _NO_FOLLOW | os.O_CLOEXEC, 0o644)
        except OSError as error:
            if self._path.is_symlink():
                raise self._refuse("is a link") from error
            raise
        about = os.fstat(handle)
        content = os.read(handle, MAX_PROCESS_ID_BYTES + 1) if stat.S_ISREG(about.st_mode) else b"?"
        if about.st_nlink > 1 or not (content == b"" or PROCESS_ID.fullmatch(content)):
            os.close(handle)
            raise self._refuse("is no lock")
        return handle

    def _refuse(self, reason: str) -> OSError:
        return OSError(f"{self._path} {reason}, so that no process can lock the folder. Check it, then remove it.")

    def _lock(self, folder: Path) -> None:
        if sys.platform == "win32":
            return
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            # POSIX allows both EAGAIN and EACCES for a lock that another process holds.
            os.lseek(self._file, 0, os.SEEK_SET)
            holder = os.read(self._file, 100).decode(errors="replace").strip() or "unknown"
            raise FolderInUse(
                f"{folder} is in use by process {holder}, which writes there. Wait until it ends, or stop it."
            ) from None

    def _is_there(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._file), os.stat(self._path))
        except FileNotFoundError:
            return False
