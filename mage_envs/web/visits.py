"""Store of visits in memory, with limits on their number, age and actions."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from threading import Lock
from time import monotonic
from typing import Generic, TypeVar

Session = TypeVar("Session")

MOST_VISITS = 1000
IDLE_SECONDS = 3600.0
MOST_ACTIONS = 2000
"""Maximum number of actions of a visit, which also bounds its memory."""


class Visit(Generic[Session]):
    """A visitor's session. A thread must hold its lock to read or change it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.lock = Lock()
        self.actions = 0
        """Number of actions so far. A form contains the number at its creation, so that an old form has no effect."""

    @property
    def used_up(self) -> bool:
        """True if the visit has had its maximum number of actions."""
        return self.actions >= MOST_ACTIONS


class Visits(Generic[Session]):
    """Visits by token. If there are too many, a new visit replaces one of the address that has most of them.

    So a visitor who starts many visits ends only visits of the same address. Those without an action end first, then
    those with the longest idle time.

    Args:
        most: Maximum number of visits.
        idle: Time in seconds after which an idle visit ends.
        clock: Function that returns the time in seconds.
    """

    def __init__(
        self, limit: int = MOST_VISITS, idle: float = IDLE_SECONDS, clock: Callable[[], float] = monotonic
    ) -> None:
        self._limit, self._idle, self._clock = limit, idle, clock
        self._lock = Lock()
        self._visits: OrderedDict[str, tuple[Visit[Session], float]] = OrderedDict()
        """(visit, time of its last request) by token, the longest idle first."""
        self._addresses: dict[str, str] = {}
        """Address by token. It may also have tokens of visits that ended."""

    def __len__(self) -> int:
        with self._lock:
            self._forget_idle()
            return len(self._visits)

    def _forget_idle(self) -> None:
        # The dict is sorted by the last request, so the loop ends at the first visit that is still in use.
        current_time = self._clock()
        while self._visits:
            token, (_, last_request) = next(iter(self._visits.items()))
            if current_time - last_request < self._idle:
                return
            del self._visits[token]

    def add(self, token: str, visit: Visit[Session], address: str = "") -> None:
        """Store a new visit from an address."""
        with self._lock:
            self._forget_idle()
            while len(self._visits) >= self._limit:
                del self._visits[self._least_needed()]
            self._visits[token] = (visit, self._clock())
            self._addresses = {visit_token: self._addresses.get(visit_token, address) for visit_token in self._visits}

    def _least_needed(self) -> str:
        """Return the token of the visit to end."""
        counts = Counter(self._addresses[token] for token in self._visits)
        highest_count = max(counts.values())
        crowded = [token for token in self._visits if counts[self._addresses[token]] == highest_count]
        # `min` returns the first of equal ones, which has the longest idle time.
        return min(crowded, key=lambda token: self._visits[token][0].actions > 0)

    def find(self, token: str | None) -> Visit[Session] | None:
        """Return the visit with that token, or None if it has ended or never existed."""
        with self._lock:
            self._forget_idle()
            if token is None or token not in self._visits:
                return None
            # Inserting the visit again moves it to the end of the order.
            visit, _ = self._visits.pop(token)
            self._visits[token] = (visit, self._clock())
            return visit

    def drop(self, token: str | None) -> None:
        """Remove a visit, if there is one with that token."""
        with self._lock:
            if token is not None:
                self._visits.pop(token, None)
