"""`Watch`: a deadline for what is called in this process, and a word to whoever waits for it."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

from mage_envs.exceptions import Interruption

DEADLINE = 600.0
"""Seconds that a call has where nothing else is said; 0 stands for no limit everywhere."""
SLOW = 60.0
"""Seconds after which somebody is told what is waited for."""


class Late(Interruption):
    """A call of this process was interrupted at its deadline. No `except Exception` in it catches this."""


class Watch:
    """Looks on from a thread of its own while this thread calls something.

    A call that is late is interrupted by a signal: it sleeps, waits for a server or loops in Python. What can not be
    interrupted: compiled code that does not come back to Python, code that swallows every exception, and any code
    where the watch is not entered in the main thread (or on Windows). For those there are worker processes.
    """

    def __init__(self, on_slow: Callable[[str, float], None], slow_after: float = SLOW) -> None:
        """`on_slow(who, seconds)` is called once in a call that takes longer than `slow_after` seconds."""
        self.tell, self._slow_after = on_slow, slow_after
        self._since: float | None = None
        """When the running call began."""
        self._deadline = 0.0
        self._who: Callable[[], str] = str
        self._ended = threading.Event()
        self._can_interrupt = False
        self._before: Any = None

    def __enter__(self) -> Self:
        self._can_interrupt = hasattr(signal, "SIGALRM") and threading.current_thread() is threading.main_thread()
        if self._can_interrupt:
            self._before = signal.signal(signal.SIGALRM, self._interrupt)
        self._ended.clear()
        self._main = threading.get_ident()
        self._interval = min(1.0, self._slow_after / 2)
        self._thread = threading.Thread(target=self._look, daemon=True, name="mage-watch")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._since = None
        self._ended.set()
        self._thread.join()
        if self._can_interrupt:
            signal.signal(signal.SIGALRM, self._before)

    def call(self, function: Callable[..., Any], *arguments: Any, deadline: float, who: Callable[[], str]) -> Any:
        """The function's result; raises `Late` after `deadline` seconds (0: never). `who` says what is waited for."""
        self._deadline, self._who = deadline, who
        if deadline and deadline < 4 * self._interval:
            self._interval = deadline / 4
        self._since = time.monotonic()
        try:
            result = function(*arguments)
            self._since = None
            return result
        finally:
            self._since = None

    def _look(self) -> None:
        told: float | None = None
        while not self._ended.wait(self._interval):
            since, who = self._since, self._who
            if since is None:
                continue
            seconds = time.monotonic() - since
            if seconds > self._slow_after and told != since:
                told = since
                self.tell(who(), seconds)
            if self._is_late() and self._can_interrupt:
                signal.pthread_kill(self._main, signal.SIGALRM)

    def _is_late(self) -> bool:
        since = self._since
        return since is not None and bool(self._deadline) and time.monotonic() - since > self._deadline

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._is_late():
            raise Late(f"no answer within {self._deadline:g} s")
        if callable(self._before):  # somebody else's alarm
            self._before(number, frame)
