"""Daemon threads for slow environments and opponents; a call that hangs is given up, and its thread replaced."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue

POLL_SECONDS = 0.05
"""How often running calls are looked at while a timeout is set."""


class _Call:
    """One call under way; `started` is None while it waits for a thread."""

    def __init__(self, function: Callable[[], None]) -> None:
        self.function = function
        self.started: float | None = None
        self.given_up = False
        self.finished = threading.Event()


class Workers:
    """`count` threads that run calls; the process never waits for them at its end."""

    def __init__(self, count: int) -> None:
        self._waiting: SimpleQueue[_Call | None] = SimpleQueue()
        self._count = count
        for _ in range(count):
            self._add_thread()

    def _add_thread(self) -> None:
        threading.Thread(target=self._work, daemon=True, name="mage-worker").start()

    def _work(self) -> None:
        while (call := self._waiting.get()) is not None:
            call.started = time.monotonic()
            call.function()
            call.finished.set()
            if call.given_up:
                return

    def run(self, functions: Sequence[Callable[[], None]], timeout: float | None = None) -> list[int]:
        """Runs all functions, which must not raise; returns the indices of those given up after `timeout` seconds.

        The seconds count from a call's own start, not from its place in the queue.
        """
        calls = [_Call(function) for function in functions]
        for call in calls:
            self._waiting.put(call)
        for call in calls:
            while not call.finished.wait(None if timeout is None else min(timeout, POLL_SECONDS)):
                if timeout is not None:
                    self._give_up_late(calls, timeout)
                if call.given_up:
                    break
        return [index for index, call in enumerate(calls) if call.given_up]

    def _give_up_late(self, calls: Sequence[_Call], timeout: float) -> None:
        now = time.monotonic()
        for call in calls:
            late = call.started is not None and now - call.started > timeout
            if late and not call.given_up and not call.finished.is_set():
                call.given_up = True
                self._add_thread()

    def close(self) -> None:
        """Lets idle threads end."""
        for _ in range(self._count):
            self._waiting.put(None)
