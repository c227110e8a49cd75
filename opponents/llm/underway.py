"""Calls under way, each of which answers one slot: what streams of answers are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any

from mage_envs.text.generation import Completion


class Underway:
    """Calls in the order in which they began, and answers that nobody has heard yet."""

    def __init__(self) -> None:
        self._ready: list[tuple[int, Completion]] = []
        self._running: dict[Future[Any], tuple[int, Callable[[], Completion], Hashable]] = {}

    def answered(self, slot: int, completion: Completion) -> None:
        """Files an answer that needed no call."""
        self._ready.append((slot, completion))

    def begun(self, slot: int, call: Future[Any], finish: Callable[[], Completion], server: Hashable = None) -> None:
        """Files a call; `finish` makes its answer once it is done."""
        self._running[call] = slot, finish, server

    def busy(self) -> Counter[Hashable]:
        """Calls under way, by server."""
        return Counter(server for _, _, server in self._running.values())

    def poll(self, timeout: float | None = None) -> list[tuple[int, Completion]]:
        """Waits for at least one answer, at most `timeout` seconds, if any is to come; those there are, by slot."""
        done = () if self._ready else wait(self._running, timeout, FIRST_COMPLETED).done
        ready, self._ready = self._ready, []
        for call in done:
            slot, finish, _ = self._running.pop(call)
            ready.append((slot, finish()))
        return ready

    def cancel(self) -> None:
        """Gives everything up."""
        self._ready.clear()
        for call in reversed(self._running):  # those that still wait first, or they would take the places
            call.cancel()
        self._running.clear()
