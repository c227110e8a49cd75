"""The worker's end of a pipe: the code of the process that answers calls."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from mage_envs.loading.imports import allow_paths, load_modules
from mage_envs.processes.call_outcomes import MEMORY, CallError, WorkerLost, attempt, is_out_of_memory, portable

READY = 0
"""Number of the message that a worker sends when it is ready for calls."""
Trusted = tuple[Sequence[str], Sequence[Path]]
"""Modules that the user named, and paths that records may read."""
WHERE = signal.SIGUSR1 if hasattr(signal, "SIGUSR1") else None
"""Signal that makes a worker write its traceback."""


@runtime_checkable
class Closes(Protocol):
    """A function with resources to close when its worker is stopped."""

    def close(self) -> None:
        """Close the resources."""
        ...


def serve(calls: Connection, notes: Connection, make: bytes, trusted: Trusted, memory_gb: float) -> None:
    """Answer calls until the pipe closes or the parent process ends.

    Args:
        calls: Pipe of the calls and their outcomes.
        notes: Pipe for the traceback if this process is killed, hangs or reaches a limit.
        make: Pickled function that returns the function to call.
        trusted: Modules to import first, and paths that records may read.
        memory_gb: Limit of the address space in GiB (0: no limit).
    """
    # The parent handles Ctrl-C, and ends its workers then.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A process group of its own, so that the processes that an opponent starts can be killed with the worker.
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)
    faulthandler.enable(notes.fileno())
    if WHERE is not None:
        faulthandler.register(WHERE, notes.fileno())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        callee = attempt(_make_function, make, trusted, memory_gb)
        calls.send_bytes(_message(READY, callee if isinstance(callee, CallError) else None))
        while not isinstance(callee, CallError):
            try:
                number, arguments = pickle.loads(calls.recv_bytes())
            except (EOFError, ConnectionResetError):
                if isinstance(callee, Closes):
                    callee.close()
                return
            outcome = attempt(callee, *arguments)
            if isinstance(outcome, CallError) and is_out_of_memory(outcome.error):
                limit = f"the limit of {memory_gb:g} GB of memory is reached" if memory_gb else "out of memory"
                calls.send_bytes(_message(number, WorkerLost(MEMORY, limit, outcome.traceback)))
                # Objects may be half-built after a MemoryError, so this process must not answer further calls.
                return
            calls.send_bytes(_message(number, outcome))


def _make_function(make: bytes, trusted: Trusted, memory_gb: float) -> Callable[..., Any]:
    if memory_gb:
        # Windows does not have this module.
        import resource

        limit = int(memory_gb * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    # The user's modules come first, because `make` may use the games and opponents that they register.
    load_modules(trusted[0])
    allow_paths(trusted[1])
    function: Callable[..., Any] = pickle.loads(make)()
    return function


def _message(number: int, outcome: Any) -> bytes:
    if isinstance(outcome, CallError):
        outcome = portable(outcome)
    try:
        return pickle.dumps((number, outcome))
    except Exception as error:
        # Pickling runs code of the pickled objects, which may raise anything.
        return pickle.dumps((number, CallError(TypeError(f"An answer cannot be sent between processes: {error}"), "")))


def _end_with_parent() -> None:
    """Wait for the parent's end, then kill this process and those that it started."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        if hasattr(os, "killpg"):
            os.killpg(0, signal.SIGKILL)
        os._exit(1)
