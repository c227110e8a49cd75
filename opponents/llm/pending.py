"""Running calls of a stream of answers, each for one slot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from typing import Any

from mage_envs.text.generation import Completion


class PendingCalls:
    """The running calls in the order of their start, and the answers that no `poll` has returned yet."""

    def __init__(self) -> None:
        self._ready: list[tuple[int, Completion]] = []
        self._running: dict[Future[Any], tuple[int, Callable[[], Completion], Hashable]] = {}

    def add_answer(self, slot: int, completion: Completion) -> None:
        """Add an answer that required no call."""
        self._ready.append((slot, completion))

    def add(self, slot: int, call: Future[Any], finish: Callable[[], Completion], server: Hashable = None) -> None:
        """Add a call that is about to start.

        Args:
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
        finished_calls = () if self._ready else wait(self._running, timeout, FIRST_COMPLETED).done
        ready, self._ready = self._ready, []
        for call in finished_calls:
            slot, finish, _ = self._running.pop(call)
            ready.append((slot, finish()))
        return ready

    def collect(self, count: int) -> list[Completion]:
        """Return the answers of the slots 0 to `count` - 1, in this order; no other slot may be running."""
        answers: dict[int, Completion] = {}
        while len(answers) < count:
            answers.update(self.poll())
        return [answers[slot] for slot in range(count)]

    @contextmanager
    def cancelling(self) -> Iterator[None]:
        """Cancel all calls at the end of the context, so that none goes on after Ctrl-C and spends the budget."""
        try:
            yield
        finally:
            self.cancel()

    def cancel(self) -> None:
        """Cancel all calls and drop all answers."""
        self._ready.clear()
        # Waiting calls are cancelled first. Otherwise they would start in the slots of the cancelled ones.
        for call in reversed(self._running):
            call.cancel()
        self._running.clear()
