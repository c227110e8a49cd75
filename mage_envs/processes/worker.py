"""The parent's end of one worker process: its pipe, its failures, its restarts."""

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

from mage_envs.loading.imports import readable_paths, user_modules
from mage_envs.processes.call_outcomes import CRASH, HANG, WorkerLost
from mage_envs.processes.worker_loop import READY, WHERE, serve

GRACE = 5.0
"""Seconds in which a stopped worker may end by itself."""
WRITES = 0.5
"""Seconds in which a hanging worker must begin to write its traceback."""
PAUSE = 0.1
"""Seconds of silence that mark the end of the traceback."""
AT_ONCE = 32_768
"""Bytes that the pipe of a waiting process accepts without blocking."""


class Worker:
    """One process that answers one call at a time. A failed worker stays dead until `start`."""

    def __init__(self, make: bytes, memory_gb: float) -> None:
        self._arguments = (make, memory_gb)
        self.alive = False
        self.lives = 0
        """Number of starts."""
        self.called: float | None = None
        """Start time of the running call or, before the worker is ready, of the process; None if it is idle."""
        self.deadline = 0.0
        """Timeout of the running call in seconds; 0 means no limit."""
        self.is_ready = False
        self.reported_slow = False
        """True if the running call was reported as slow."""
        self._next: bytes | None = None
        """Pickled call that is sent when the process is ready."""

    def start(self) -> None:
        """Start a new process, without any state of an earlier one."""
        # A fork would copy the locks of other threads in their current state, and torch with its threads.
        context = get_context("spawn")
        self._calls, theirs = context.Pipe()
        self._notes, notes = context.Pipe(duplex=False)
        make, memory_gb = self._arguments
        self.process = context.Process(
            target=serve, args=(theirs, notes, make, (user_modules(), readable_paths()), memory_gb), daemon=True
        )
        try:
            with _ignore_interrupts():
                self.process.start()
        finally:
            # The worker must hold the only other end, so that the pipe breaks when it dies.
            theirs.close()
            notes.close()
        self.alive, self.is_ready, self.called, self._next = True, False, None, None
        self.lives += 1
        self._number = READY
        self._sender: threading.Thread | None = None

    def call(self, arguments: tuple[Any, ...], deadline: float) -> None:
        """Send a call. This never blocks. The deadline counts from the moment when the process is ready."""
        # Outcomes carry this number, so that an outcome of an abandoned call is recognised and dropped.
        self._number += 1
        self.called, self.deadline, self.reported_slow = time.monotonic(), deadline, False
        message = pickle.dumps((self._number, arguments))
        if self.is_ready:
            self._send(message)
        else:
            self._next = message

    def ends(self) -> list[Any]:
        """Return the objects that `multiprocessing.connection.wait` waits for."""
        return [self._calls, self.process.sentinel]

    def take(self) -> tuple[bool, Any]:
        """Return (True if the running call is over, its outcome) when one of `ends` is ready."""
        try:
            # A worker may answer and then die, so an answer is read even if `wait` reported only the death.
            if not self._calls.poll():
                return True, self.handle_death()
            number, outcome = pickle.loads(self._calls.recv_bytes())
        except (EOFError, OSError):
            return True, self.handle_death()
        if number == READY:
            self.is_ready = outcome is None
            if self._next is not None and self.is_ready:
                self.called = time.monotonic()
                self._send(self._next)
            if self.is_ready:
                return False, None
        elif number != self._number:
            # The outcome belongs to an abandoned call.
            return False, None
        self.called = None
        # After these outcomes, the process ends by itself.
        if isinstance(outcome, WorkerLost) or number == READY:
            self.end()
        return True, outcome

    def is_dead(self) -> bool:
        """Return True if the process has ended or was never started."""
        return not self.alive or not self.process.is_alive()

    def handle_hang(self) -> WorkerLost:
        """Read the traceback of the process, and kill it."""
        written = ""
        if WHERE is not None and self.is_ready:
            with suppress(ProcessLookupError):
                os.kill(self.process.pid or 0, WHERE)
            written = self._read_notes(WRITES)
        return WorkerLost(HANG, f"no answer within {self.deadline:g} s", written + self.end())

    def handle_death(self) -> WorkerLost:
        """Clean up after a process that ended by itself."""
        # The pipe may break before the process has its exit code.
        self.process.join(GRACE)
        code = self.process.exitcode
        cause = ""
        if code is not None and code < 0:
            with suppress(ValueError):
                cause = f" ({signal.Signals(-code).name})"
        return WorkerLost(CRASH, f"its process died: exit code {code}{cause}", self.end())

    def end(self) -> str:
        """Kill the process and all processes that it started, if they still run. Returns its notes."""
        if not self.alive:
            return ""
        self.alive, self.called = False, None
        # The group may not exist yet, may not be ours, or the system may have no groups (Windows).
        with suppress(ProcessLookupError, PermissionError, AttributeError):
            os.killpg(self.process.pid or 0, signal.SIGKILL)
        self.process.kill()
        self.process.join()
        notes = self._read_notes()
        if self._sender is not None:
            # The pipe is broken, so the thread ends now. Closing the pipe first would raise another error in it.
            self._sender.join()
        self._calls.close()
        self._notes.close()
        self.process.close()
        return notes

    def hang_up(self) -> None:
        """Close the pipe of an idle process, so that it ends by itself."""
        self._calls.close()

    def _read_notes(self, patience: float = 0.0) -> str:
        """Return the notes that were written. They must begin within `patience` seconds."""
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
        # A pipe's buffer is small: a larger message blocks until the worker reads, perhaps forever.
        self._sender = threading.Thread(target=_send, args=(self._calls, message), daemon=True)
        self._sender.start()


def _send(connection: Connection, message: bytes) -> None:
    # If the worker is dead, the wait for its answer notices that.
    with suppress(OSError):
        connection.send_bytes(message)


@contextmanager
def _ignore_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C, so that a process that starts inside this context ignores it too. Its parent ends it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous_handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous_handler)
