"""Running calls of a stream of answers, each for one slot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any

from mage_envs.text.generation import Completion


class Underway:
    """The running calls in the order of their start, and the answers that no `poll` has returned yet."""

    def __init__(self) -> None:
        self._ready: list[tuple[int, Completion]] = []
        self._running: dict[Future[Any], tuple[int, Callable[[], Completion], Hashable]] = {}

    def answered(self, slot: int, completion: Completion) -> None:
        """Add an answer that required no call."""
        self._ready.append((slot, completion))

    def begun(self, slot: int, call: Future[Any], finish: Callable[[], Completion], server: Hashable = None) -> None:
        """Add a running call.

        Args:
            slot: Slot of the prompt.
            call: Future of the call.
            finish: Function that returns the answer when the call is done.
            server: Key of the server, for `busy`.
        """
        self._running[call] = slot, finish, server

    def busy(self) -> Counter[Hashable]:
        """Return the number of running calls by server."""
        return Counter(server for _, _, server in self._running.values())

    def poll(self, timeout: float | None = None) -> list[tuple[int, Completion]]:
        """Return (slot, answer) of finished prompts; wait at most `timeout` seconds for the first one."""
        # Answers without a call are returned at once, without waiting for the running calls.
        done = () if self._ready else wait(self._running, timeout, FIRST_COMPLETED).done
        ready, self._ready = self._ready, []
        for call in done:
            slot, finish, _ = self._running.pop(call)
            ready.append((slot, finish()))
        return ready

    def cancel(self) -> None:
        """Cancel all calls and drop all answers."""
        self._ready.clear()
        # Waiting calls are cancelled first. Otherwise they would start in the slots of the cancelled ones.
        for call in reversed(self._running):
            call.cancel()
        self._running.clear()
