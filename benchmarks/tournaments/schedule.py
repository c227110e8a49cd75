"""Schedule of a tournament: all its pairings, played by an executor."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from functools import partial

from mage_envs.benchmarks.executors.jobs import Conditions, Executor, unwrap
from mage_envs.benchmarks.executors.on_this_machine import Local
from mage_envs.benchmarks.tournaments.pairing import Pairing, PairingFailure, PairingRun
from mage_envs.benchmarks.tournaments.pairing_store import Store
from mage_envs.benchmarks.tournaments.tournament_settings import Settings
from mage_envs.processes.call_outcomes import HANG, WorkerLost
from mage_envs.processes.watchdog import CALL_TIMEOUT_S, SLOW_AFTER_S, Watchdog

Names = tuple[str, str]
LOGGER = logging.getLogger(__name__)
CHUNK = 0.5
"""Seconds of play per call of a worker. Returning regularly shows that the pairing makes progress."""
RETRIES = 1
"""Restarts of a pairing if its worker dies, because its policies may not be the cause."""
MARGIN = 2.0
"""Seconds after the timeout before a worker is killed. A worker that ends the call itself can name the policy."""


def play_all(
    settings: Settings,
    *,
    executor: Executor | None = None,
    deadline: float = CALL_TIMEOUT_S,
    slow_after: float = SLOW_AFTER_S,
    store: Store | None = None,
    on_finished: Callable[[int, int, int], None] | None = None,
) -> dict[Names, Pairing | PairingFailure]:
    """Play every pairing and return the outcomes in the order of `settings.pairings()`.

    A worker that dies repeatedly fails only its own pairing.

    Args:
        settings: The game, the policies and the seed. Workers make the policies from their names.
        executor: Executor of the pairings (default: this process).
        deadline: Timeout in seconds per deal, played from both seats, and for making a pairing's policies and exact
            values (0 disables it). A pairing that exceeds it fails with the type `Hang`. Without worker processes,
            the timeout holds as far as `Watchdog` can interrupt the call.
        slow_after: Seconds without progress after which a line with the names of the pairing is logged.
        store: Folder that keeps finished pairings and returns those of an earlier run. Failed pairings are not kept,
            so they are played again.
        on_finished: Callback `on_finished(done, all, stored)`, called at the start and after each pairing. `stored` of
            the `done` pairings are from an earlier run.

    Returns:
        The outcome of each pairing by its pair of names.

    Raises:
        ValueError: If the deadline is negative or if the settings are not playable.
    """
    if not deadline >= 0:
        raise ValueError(f"deadline={deadline!r} must be a number of seconds, or 0 to disable it.")
    settings.check()
    pairings = settings.pairings()
    outcomes: dict[Names, Pairing | PairingFailure] = {}
    for names in pairings:
        if store is not None and (result := store.read(names)) is not None:
            outcomes[names] = result
    stored = len(outcomes)
    waiting = [names for names in pairings if names not in outcomes]

    def tell() -> None:
        if on_finished is not None:
            on_finished(len(outcomes), len(pairings), stored)

    def tell_slow(index: int, seconds: float) -> None:
        LOGGER.warning("Waited %.0f s so far for %s.", seconds, " against ".join(waiting[index]))

    tell()
    # One call plays for CHUNK seconds, then up to one more part, which the worker's own watch ends at the deadline.
    limit = deadline + CHUNK + MARGIN if deadline else 0.0
    conditions = Conditions(retries=RETRIES, deadline=limit, slow_after=slow_after, tell=tell_slow)
    running = (executor or Local()).run(partial(_Player, settings, deadline), waiting, conditions)
    with contextlib.closing(running):
        for index, result in running:
            names = waiting[index]
            lost = isinstance(result, WorkerLost)
            outcome = _failure(names, result, deadline) if lost else unwrap(result, f"{' against '.join(names)}")
            # Written as it arrives, so that an interruption loses only the pairings in progress.
            if store is not None and isinstance(outcome, Pairing):
                store.write(outcome)
            outcomes[names] = outcome
            tell()
    # Outcomes arrive in any order; the results must not depend on it.
    return {names: outcomes[names] for names in pairings}


def _failure(names: Names, lost: WorkerLost, deadline: float) -> PairingFailure:
    """Return the failure of a pairing whose worker was lost. Either policy may be the cause."""
    # A policy's pairing with itself has one name.
    policies = tuple(dict.fromkeys(names))
    if lost.kind == HANG:
        return PairingFailure(policies, "Hang", f"no answer within {deadline:g} s")
    return PairingFailure(policies, "WorkerDied", lost.reason)


class _Player:
    """Work of a worker process. It keeps the pairing that it plays between calls."""

    def __init__(self, settings: Settings, deadline: float) -> None:
        self._settings, self._deadline = settings, deadline
        self._run: PairingRun | None = None
        # The executor reports slow calls, so this watch only enforces the timeout.
        self._watch = Watchdog(lambda label, seconds: None)
        # Entered for the life of the worker; `close` leaves it.
        self._watch.__enter__()

    def close(self) -> None:
        """Stop the watch."""
        self._watch.__exit__(None, None, None)

    def __call__(self, names: Names) -> Pairing | PairingFailure | None:
        """Start or continue the pairing for `CHUNK` seconds. Return its outcome, or None if it is not finished."""
        if self._run is None:
            self._run = PairingRun(self._settings, names)
        until = time.monotonic() + CHUNK
        while (outcome := self._run.go_on(self._watch, self._deadline)) is None:
            if time.monotonic() > until:
                return None
        self._run = None
        return outcome
