"""`Watchdog`: a deadline for calls in this process, and a notice of slow calls."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

from mage_envs.exceptions import Interruption

CALL_TIMEOUT_S = 600.0
"""Default timeout of a call in seconds; 0 means no limit everywhere."""
SLOW_AFTER_S = 60.0
"""Default time in seconds after which a call is reported as slow."""


class CallTimeout(Interruption):
    """Interruption of a call of this process at its deadline. `except Exception` does not catch it."""


class Watchdog:
    """A thread that watches the calls of this thread.

    A signal interrupts a late call if it sleeps, waits for a server or loops in Python. It cannot interrupt compiled
    code that does not return to Python, or code that swallows every exception. It works only if the watch is entered in
    the main thread, and not on Windows. Use worker processes in all other cases.
    """

    def __init__(self, on_slow: Callable[[str, float], None], slow_after: float = SLOW_AFTER_S) -> None:
        """Create a watch. It calls `on_slow(who, seconds)` once per call that takes more than `slow_after` seconds."""
        self.on_slow, self._slow_after = on_slow, slow_after
        self._since: float | None = None
        """Start time of the running call, or None."""
        self._deadline = 0.0
        self._describe: Callable[[], str] = str
        self._ended = threading.Event()
        self._can_interrupt = False
        self._before: Any = None

    def __enter__(self) -> Self:
        self._can_interrupt = hasattr(signal, "SIGALRM") and threading.current_thread() is threading.main_thread()
        if self._can_interrupt:
            # Python runs signal handlers in the main thread only, hence the condition above.
            self._before = signal.signal(signal.SIGALRM, self._interrupt)
        self._ended.clear()
        self._main = threading.get_ident()
        self._interval = min(1.0, self._slow_after / 2)
        self._thread = threading.Thread(target=self._look, daemon=True, name="mage-watch")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # The thread ends before the old handler is restored, which must not receive a signal of this watch.
        self._since = None
        self._ended.set()
        self._thread.join()
        if self._can_interrupt:
            signal.signal(signal.SIGALRM, self._before)

    def call(self, function: Callable[..., Any], *arguments: Any, deadline: float, describe: Callable[[], str]) -> Any:
        """Return the function's result.

        Args:
            deadline: Timeout in seconds (0: no limit).
            describe: Function that returns a description of the call, for `on_slow`.

        Raises:
            Late: If the call did not return within the deadline.
        """
        self._deadline, self._describe = deadline, describe
        # For a short deadline, the thread must look more often, or the interruption would come much too late.
        if deadline and deadline < 4 * self._interval:
            self._interval = deadline / 4
        self._since = time.monotonic()
        try:
            result = function(*arguments)
            # Before the return, because a signal that arrives there must not discard the result.
            self._since = None
            return result
        finally:
            self._since = None

    def _look(self) -> None:
        """Report slow calls and interrupt late ones, until `__exit__`."""
        reported: float | None = None
        while not self._ended.wait(self._interval):
            # Read once: the main thread may end this call and start another one meanwhile.
            since, describe = self._since, self._describe
            if since is None:
                continue
            seconds = time.monotonic() - since
            if seconds > self._slow_after and reported != since:
                reported = since
                self.on_slow(describe(), seconds)
            if self._is_late() and self._can_interrupt:
                signal.pthread_kill(self._main, signal.SIGALRM)

    def _is_late(self) -> bool:
        since = self._since
        return since is not None and bool(self._deadline) and time.monotonic() - since > self._deadline

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        # The signal may arrive after the late call has returned. It must not interrupt the next one.
        if self._is_late():
            raise CallTimeout(f"no answer within {self._deadline:g} s")
        # Otherwise it may be an alarm of other code.
        if callable(self._before):
            self._before(number, frame)
