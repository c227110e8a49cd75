"""The visits that people make: kept in memory, few enough, and not for ever."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from time import monotonic

from mage_envs.games.webshop.session import Session

MOST_VISITS = 1000
IDLE_SECONDS = 3600.0
MOST_ACTIONS = 2000
"""Of one visit; with it, what a visit remembers is bounded, too."""


class Visit:
    """A person's session. Whoever reads or changes it holds its lock."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.lock = Lock()
        self.actions = 0
        """Carried out so far; a form tells on which count it was made, so that an old one does nothing."""

    @property
    def used_up(self) -> bool:
        return self.actions >= MOST_ACTIONS


class Visits:
    """Visits by token. A new one takes the place of the one that has been idle longest where there are too many."""

    def __init__(
        self, most: int = MOST_VISITS, idle: float = IDLE_SECONDS, clock: Callable[[], float] = monotonic
    ) -> None:
        self._most, self._idle, self._clock = most, idle, clock
        self._lock = Lock()
        self._visits: OrderedDict[str, tuple[Visit, float]] = OrderedDict()
        """Token to visit and when it was last asked for, the longest idle first."""

    def __len__(self) -> int:
        with self._lock:
            self._forget_idle()
            return len(self._visits)

    def _forget_idle(self) -> None:
        now = self._clock()
        while self._visits:
            token, (_, seen) = next(iter(self._visits.items()))
            if now - seen < self._idle:
                return
            del self._visits[token]

    def add(self, token: str, visit: Visit) -> None:
        """Keeps a new visit."""
        with self._lock:
            self._forget_idle()
            while len(self._visits) >= self._most:
                self._visits.popitem(last=False)
            self._visits[token] = (visit, self._clock())

    def find(self, token: str | None) -> Visit | None:
        """The visit with that token, None where it ended or never was."""
        with self._lock:
            self._forget_idle()
            if token is None or token not in self._visits:
                return None
            visit, _ = self._visits.pop(token)
            self._visits[token] = (visit, self._clock())
            return visit

    def drop(self, token: str | None) -> None:
        """Ends a visit."""
        with self._lock:
            if token is not None:
                self._visits.pop(token, None)
