"""The worker's end: what runs in the process that answers calls."""

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
from typing import Any, Protocol, runtime_checkable

from mage_envs.imports import load_modules
from mage_envs.processes.outcomes import MEMORY, Lost, Raised, attempt, is_out_of_memory, portable

READY = 0
"""Number of the message that a worker sends when it can be called."""
WHERE = signal.SIGUSR1 if hasattr(signal, "SIGUSR1") else None
"""Asks a worker to write down where it is."""


@runtime_checkable
class Closes(Protocol):
    """A function that holds something which is closed when its worker is stopped."""

    def close(self) -> None: ...


def serve(calls: Connection, notes: Connection, make: bytes, imports: Sequence[str], memory_gb: float) -> None:
    """Makes the function that `make` makes, then answers calls of it until the pipe closes or the parent is gone.

    `notes` gets the traceback of a process that is killed, hangs, or breaks a limit.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's matter
    if hasattr(os, "setpgid"):
        os.setpgid(0, 0)  # so that what an opponent starts ends with its worker
    faulthandler.enable(notes.fileno())
    if WHERE is not None:
        faulthandler.register(WHERE, notes.fileno())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        made = attempt(_made, make, imports, memory_gb)
        calls.send_bytes(_message(READY, made if isinstance(made, Raised) else None))
        while not isinstance(made, Raised):
            try:
                number, arguments = pickle.loads(calls.recv_bytes())
            except (EOFError, ConnectionResetError):
                if isinstance(made, Closes):
                    made.close()
                return
            outcome = attempt(made, *arguments)
            if isinstance(outcome, Raised) and is_out_of_memory(outcome.error):
                limit = f"the limit of {memory_gb:g} GB of memory is reached" if memory_gb else "out of memory"
                calls.send_bytes(_message(number, Lost(MEMORY, limit, outcome.traceback)))
                return  # what is left of it is not to be trusted
            calls.send_bytes(_message(number, outcome))


def _made(make: bytes, imports: Sequence[str], memory_gb: float) -> Callable[..., Any]:
    if memory_gb:
        import resource  # absent on Windows

        limit = int(memory_gb * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    load_modules(imports)
    function: Callable[..., Any] = pickle.loads(make)()
    return function


def _message(number: int, outcome: Any) -> bytes:
    if isinstance(outcome, Raised):
        outcome = portable(outcome)
    try:
        return pickle.dumps((number, outcome))
    except Exception as error:  # pickling runs the code of whatever is sent
        return pickle.dumps((number, Raised(TypeError(f"An answer cannot be sent between processes: {error}"), "")))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        if hasattr(os, "killpg"):
            os.killpg(0, signal.SIGKILL)
        os._exit(1)
