"""The parent's end of one worker process: its pipe, its death, its replacement."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from mage_envs.imports import imported
from mage_envs.processes.outcomes import CRASH, HANG, Lost
from mage_envs.processes.serving import READY, WHERE, serve

GRACE = 5.0
"""Seconds that a worker has to end by itself when it is stopped."""
WRITES = 0.5
"""Seconds that a worker which hangs has to write down where it is."""
PAUSE = 0.1
"""Seconds of silence after which it has written all."""
AT_ONCE = 32_768
"""Bytes that the pipe of a process which waits for them takes without blocking."""


class Worker:
    """One process that answers one call at a time. A worker that failed stays dead until `start`."""

    def __init__(self, make: bytes, memory_gb: float) -> None:
        self._arguments = (make, memory_gb)
        self.alive = False
        self.lives = 0
        """How often it was started."""
        self.called: float | None = None
        """When its running call began (or its start, where it cannot be called yet); None: it has nothing to do."""
        self.deadline = 0.0
        """Seconds that the running call has; 0: for ever."""
        self.is_ready = False
        self.told = False
        """Whether somebody was told that the running call is slow."""
        self._next: bytes | None = None
        """The call that waits until the process is ready."""

    def start(self) -> None:
        """Starts the process anew. Nothing of an earlier one is left in it."""
        context = get_context("spawn")  # a fork would copy threads' locks, and torch with its threads
        self._calls, theirs = context.Pipe()
        self._notes, notes = context.Pipe(duplex=False)
        make, memory_gb = self._arguments
        self.process = context.Process(target=serve, args=(theirs, notes, make, imported(), memory_gb), daemon=True)
        try:
            with _interrupts_ignored():
                self.process.start()
        finally:
            theirs.close()  # so that the pipe breaks when the process dies
            notes.close()
        self.alive, self.is_ready, self.called, self._next = True, False, None, None
        self.lives += 1
        self._number = READY
        self._sender: threading.Thread | None = None

    def call(self, arguments: tuple[Any, ...], deadline: float) -> None:
        """Sends a call; never blocks, whatever the process does. Its seconds count from the time that it is ready."""
        self._number += 1
        self.called, self.deadline, self.told = time.monotonic(), deadline, False
        message = pickle.dumps((self._number, arguments))
        if self.is_ready:
            self._send(message)
        else:
            self._next = message

    def ends(self) -> list[Any]:
        """What `multiprocessing.connection.wait` may wait for."""
        return [self._calls, self.process.sentinel]

    def take(self) -> tuple[bool, Any]:
        """(whether the running call is over, its outcome) once one of `ends` is ready."""
        try:
            # A worker may answer and die; `wait` need not have seen both.
            if not self._calls.poll():
                return True, self.died()
            number, outcome = pickle.loads(self._calls.recv_bytes())
        except (EOFError, OSError):
            return True, self.died()
        if number == READY:
            self.is_ready = outcome is None
            if self._next is not None and self.is_ready:
                self.called = time.monotonic()
                self._send(self._next)
            if self.is_ready:
                return False, None
        elif number != self._number:  # left over from a call that nobody waited for
            return False, None
        self.called = None
        if isinstance(outcome, Lost) or number == READY:  # it ends by itself
            self.end()
        return True, outcome

    def is_dead(self) -> bool:
        """Whether the process has ended, or was never started."""
        return not self.alive or not self.process.is_alive()

    def hung(self) -> Lost:
        """Asks the process where it is, and kills it."""
        written = ""
        if WHERE is not None and self.is_ready:
            with suppress(ProcessLookupError):
                os.kill(self.process.pid or 0, WHERE)
            written = self._read_notes(WRITES)
        return Lost(HANG, f"no answer within {self.deadline:g} s", written + self.end())

    def died(self) -> Lost:
        """Clears up after a process that ended by itself."""
        self.process.join(GRACE)
        code = self.process.exitcode
        cause = ""
        if code is not None and code < 0:
            with suppress(ValueError):
                cause = f" ({signal.Signals(-code).name})"
        return Lost(CRASH, f"its process died: exit code {code}{cause}", self.end())

    def end(self) -> str:
        """Kills the process, if it still runs, with all that it started; returns its notes."""
        if not self.alive:
            return ""
        self.alive, self.called = False, None
        with suppress(ProcessLookupError, PermissionError, AttributeError):  # none yet, not ours, or no such thing here
            os.killpg(self.process.pid or 0, signal.SIGKILL)
        self.process.kill()
        self.process.join()
        notes = self._read_notes()
        if self._sender is not None:
            self._sender.join()  # the pipe is broken now; closed under its hands, it would raise something else
        self._calls.close()
        self._notes.close()
        self.process.close()
        return notes

    def hang_up(self) -> None:
        """Closes the pipe of a process that has nothing to do, so that it ends by itself."""
        self._calls.close()

    def _read_notes(self, patience: float = 0.0) -> str:
        """What was written, and what follows it; `patience`: seconds until it begins."""
        written = b""
        while self._notes.poll(patience) and (part := os.read(self._notes.fileno(), 65_536)):
            written += part
            patience = min(patience, PAUSE)
        return written.decode(errors="replace")

    def _send(self, message: bytes) -> None:
        self._next = None
        if len(message) <= AT_ONCE:
            _send(self._calls, message)
            return
        self._sender = threading.Thread(target=_send, args=(self._calls, message), daemon=True)
        self._sender.start()


def _send(connection: Connection, message: bytes) -> None:
    with suppress(OSError):  # whoever waits for the answer notices that the worker is dead
        connection.send_bytes(message)


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """A process that starts meanwhile never sees Ctrl-C: its parent ends it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
