"""`FolderLock` and `file_lock`: one process at a time writes into a folder. Both use `lock_file`."""

from __future__ import annotations

import importlib
import os
import re
import stat
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mage_envs.files.atomic import NO_FOLLOW


def _module(name: str) -> Any:
    """Return a module, or None if this system lacks it."""
    return importlib.import_module(name) if find_spec(name) else None


# By name, because a type checker knows the modules of one system only.
_FCNTL = _module("fcntl")
_MSVCRT = _module("msvcrt")
LOCKED_BYTE = 1 << 30
"""Position of the byte that is locked on Windows. No other process could read a locked part of the text."""
RETRY_S = 0.05
"""Pause in seconds between two tries to lock a file."""
WAIT_S = 60.0
"""Seconds for which `folder_lock` waits for another process."""

LOCK = ".lock"
"""Name of the file that holds the process id of a folder's writer."""

MAX_PROCESS_ID_BYTES = 20
PROCESS_ID = re.compile(rb"[0-9]{1,19}\n?")


class FolderInUse(OSError):
    """Error if another process writes into the folder."""


def lock_file(file: int) -> bool:
    """Lock an open file for this process, until the file is closed. Return False if another process holds the lock.

    POSIX systems have record locks and Windows has locks of byte ranges. The system drops either if the process dies.
    A system with neither (WebAssembly) has one process, so nothing is locked.
    """
    try:
        if _FCNTL is not None:
            _FCNTL.lockf(file, _FCNTL.LOCK_EX | _FCNTL.LOCK_NB)
        elif _MSVCRT is not None:
            # Windows locks from the current position.
            position = os.lseek(file, 0, os.SEEK_CUR)
            os.lseek(file, LOCKED_BYTE, os.SEEK_SET)
            try:
                _MSVCRT.locking(file, _MSVCRT.LK_NBLCK, 1)
            finally:
                os.lseek(file, position, os.SEEK_SET)
    except (BlockingIOError, PermissionError):
        # POSIX allows both EAGAIN and EACCES for a lock that another process holds. Windows has EACCES.
        return False
    return True


def lock_byte(file: int, position: int) -> bool:
    """Lock one byte beyond the content of an open file for this process. Return False if another process holds it."""
    try:
        if _FCNTL is not None:
            _FCNTL.lockf(file, _FCNTL.LOCK_EX | _FCNTL.LOCK_NB, 1, LOCKED_BYTE + position)
        elif _MSVCRT is not None:
            os.lseek(file, LOCKED_BYTE + position, os.SEEK_SET)
            _MSVCRT.locking(file, _MSVCRT.LK_NBLCK, 1)
    except (BlockingIOError, PermissionError):
        return False
    return True


def unlock_byte(file: int, position: int) -> None:
    """End a lock of `lock_byte`."""
    if _FCNTL is not None:
        _FCNTL.lockf(file, _FCNTL.LOCK_UN, 1, LOCKED_BYTE + position)
    elif _MSVCRT is not None:
        os.lseek(file, LOCKED_BYTE + position, os.SEEK_SET)
        _MSVCRT.locking(file, _MSVCRT.LK_UNLCK, 1)


_THREADS: defaultdict[Path, threading.Lock] = defaultdict(threading.Lock)
"""A lock per file for the threads of this process, because `lock_file` separates processes only."""


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which is created if needed. Wait until it is free."""
    with _THREADS[path.absolute()]:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            while not lock_file(file):
                time.sleep(RETRY_S)
            yield
        finally:
            os.close(file)


class FolderLock:
    """A lock on a folder, held by this process until `release` or until the process ends in any way.

    The system drops the lock of a killed process, so that a file that is left behind never blocks. The lock belongs to
    the process: child processes do not inherit it.
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
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | NO_FOLLOW, 0o644)
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
        if not lock_file(self._file):
            os.lseek(self._file, 0, os.SEEK_SET)
            holder = os.read(self._file, 100).decode(errors="replace").strip() or "unknown"
            raise FolderInUse(
                f"{folder} is in use by process {holder}, which writes there. Wait until it ends, or stop it."
            )

    def _is_there(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._file), os.stat(self._path))
        except FileNotFoundError:
            return False


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder for one change. Wait while other threads and processes hold it for theirs.

    Raises:
        FolderInUse: If another process holds the lock for longer than `WAIT_S`, because it plays a run there.
    """
    with _THREADS[folder.absolute()]:
        last_try = time.monotonic() + WAIT_S
        while True:
            try:
                lock = FolderLock(folder)
                break
            except FolderInUse:
                if time.monotonic() > last_try:
                    raise
            time.sleep(RETRY_S)
        with lock:
            yield
