"""One worker process with its share of a vector environment, seen from both ends of its pipe."""

from __future__ import annotations

import pickle
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any

import gymnasium as gym

from mage_envs.vector.text_vector import Slots

GRACE = 5.0
"""Seconds that a worker has to end by itself when it is stopped."""
_READY = 0
"""Number of the message that a worker sends when its environments are made: their metadata."""


class WorkerFailure(RuntimeError):
    """A worker process died, or did not answer in time, where no outcome of a step can say so."""


class Died(str):
    """Instead of a worker's answer: why there is none."""

    __slots__ = ()


class Worker:
    """The parent's end. A worker that failed stays dead until `restart`."""

    def __init__(self, make_env: Callable[[], gym.Env[str, str]], rows: range, same_step: bool) -> None:
        self.rows = rows
        """The environments of the batch that it holds."""
        self._arguments = (make_env, len(rows), same_step)
        self._number = _READY
        self.start()

    def start(self) -> None:
        """Starts the process; it answers once its environments are made."""
        context = get_context("spawn")  # a fork would copy threads' locks, and torch with its threads
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, *self._arguments), daemon=True)
        self.process.start()
        theirs.close()  # so that the pipe breaks when the process dies
        self.alive = True
        self._number = _READY
        self._sender: threading.Thread | None = None

    def restart(self) -> None:
        """Replaces a dead process; its environments are new ones. Raises what prevents that, perhaps WorkerFailure."""
        self.start()
        reached = answers([self], None)[0]
        if isinstance(reached, Died):
            raise WorkerFailure(f"{self} {reached} when it was started anew.")
        if isinstance(reached, Exception):
            self.end("it could not make its environments")
            raise reached

    def ask(self, request: str, *arguments: Any) -> None:
        """Sends a request; `answers` has the answer. Never blocks, whatever the worker does."""
        self._number += 1
        message = pickle.dumps((self._number, request, arguments))
        self._sender = threading.Thread(target=_send, args=(self.connection, message), daemon=True)
        self._sender.start()

    def take(self) -> tuple[bool, Any]:
        """(whether it is the answer to the last request, the answer); what is left of older requests is passed over.

        Raises EOFError or OSError where the process is dead.
        """
        number, content = pickle.loads(self.connection.recv_bytes())
        return number == self._number, content

    def end(self, reason: str) -> Died:
        """Kills the process, if it still runs, and says why it is dead."""
        self.process.kill()
        self.process.join()
        if self._sender is not None:
            self._sender.join()  # the pipe is broken now; closed under its hands, it would raise something else
        self.connection.close()
        self.process.close()
        self.alive = False
        return Died(reason)

    def died(self) -> Died:
        """Clears up after a process that ended by itself."""
        self.process.join(GRACE)
        return self.end(f"worker died: exit code {self.process.exitcode}")

    def __str__(self) -> str:
        return f"The worker of environments {self.rows.start} to {self.rows.stop - 1}:"


def answers(workers: Sequence[Worker], deadline: float | None) -> list[Any]:
    """What each worker answers to its last request: a result, an exception that its environments raised, or `Died`.

    A worker that has not answered after `deadline` seconds is killed.
    """
    found: dict[Worker, Any] = {}
    until = None if deadline is None else time.monotonic() + deadline
    while pending := [worker for worker in workers if worker not in found]:
        left = None if until is None else max(until - time.monotonic(), 0.0)
        ready = wait([end for worker in pending for end in (worker.connection, worker.process.sentinel)], left)
        for worker in pending:
            if worker.connection in ready or worker.process.sentinel in ready:
                try:
                    # A worker may answer and die; `wait` need not have seen both.
                    current, content = worker.take() if worker.connection.poll() else (True, worker.died())
                except (EOFError, OSError):
                    current, content = True, worker.died()
                if current:
                    found[worker] = content
            elif not ready:
                found[worker] = worker.end(f"worker killed: no answer within {deadline} seconds")
    return [found[worker] for worker in workers]


def stop(workers: Sequence[Worker]) -> None:
    """Ends all workers and waits for them; kills those that do not end within GRACE seconds."""
    living = [worker for worker in workers if worker.alive]
    for worker in living:
        worker.ask("end")
    until = time.monotonic() + GRACE
    for worker in living:
        worker.process.join(max(until - time.monotonic(), 0.0))
        worker.end("stopped")


def _send(connection: Connection, message: bytes) -> None:
    with suppress(OSError):  # whoever waits for the answer notices that the worker is dead
        connection.send_bytes(message)


# -- in the worker ---------------------------------------------------------------------------------------------


def _serve(connection: Connection, make_env: Callable[[], gym.Env[str, str]], count: int, same_step: bool) -> None:
    """Makes the environments, then answers requests until told to end or the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's matter
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        try:
            slots = Slots([make_env() for _ in range(count)], same_step)
        except Exception as error:
            connection.send_bytes(pickle.dumps((_READY, _portable(error))))
            return
        connection.send_bytes(pickle.dumps((_READY, slots.envs[0].metadata)))
        while True:
            number, request, arguments = pickle.loads(connection.recv_bytes())
            if request == "end":
                break
            try:
                answer: Any = slots.begin(*arguments) if request == "begin" else slots.advance(*arguments)
            except Exception as error:
                answer = _portable(error)
            connection.send_bytes(pickle.dumps((number, answer)))
        for env in slots.envs:
            env.close()


def _portable(error: Exception) -> Exception:
    """The exception itself where it can be sent, else a RuntimeError that tells the same."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
