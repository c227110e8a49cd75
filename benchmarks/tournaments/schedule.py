"""All pairings of a tournament, played where an executor plays them."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from functools import partial

from benchmarks.executors import Conditions, Executor, Local, given
from benchmarks.tournaments.pairing import Pairing, PairingFailure, PairingRun
from benchmarks.tournaments.settings import Settings
from benchmarks.tournaments.store import Store
from mage_envs.processes import DEADLINE, SLOW, Lost, Watch
from mage_envs.processes.outcomes import HANG

Names = tuple[str, str]
LOGGER = logging.getLogger(__name__)
CHUNK = 0.5
"""Seconds of play after which a worker that has begun a pairing shows that it goes on."""
RETRIES = 1
"""Times that a pairing begins again whose worker died: one of its policies may have killed it, or somebody else."""
MARGIN = 2.0
"""Seconds that a worker has beyond a deadline to end the call by itself, which names the policy; then it is killed."""


def play_all(
    settings: Settings,
    *,
    executor: Executor | None = None,
    deadline: float = DEADLINE,
    slow_after: float = SLOW,
    store: Store | None = None,
    on_finished: Callable[[int, int, int], None] | None = None,
) -> dict[Names, Pairing | PairingFailure]:
    """The outcome of every pairing, in the order of `settings.pairings()`, whatever plays them (default: this process).

    `store` keeps each finished pairing and gives back those finished before; failed ones are played again.
    `on_finished(done, all, kept)` is called at the start and after each, `kept` of those done being of an earlier
    run. Policies are found by their names in other processes. A worker that dies again fails its pairing alone.

    Neither a deal, played from both seats, nor the making of a pairing's policies and exact values may take longer
    than `deadline` seconds (0: for ever): that is a failure of type Hang. Where no process is there to be killed, it is
    found as far as `Watch` can. After `slow_after` seconds without a move on, a logged line names the pairing.
    """
    if not deadline >= 0:
        raise ValueError(f"deadline={deadline!r} must be a number of seconds, 0 for none.")
    settings.check()
    pairings = settings.pairings()
    outcomes: dict[Names, Pairing | PairingFailure] = {}
    for names in pairings:
        if store is not None and (found := store.read(names)) is not None:
            outcomes[names] = found
    kept = len(outcomes)
    waiting = [names for names in pairings if names not in outcomes]

    def tell() -> None:
        if on_finished is not None:
            on_finished(len(outcomes), len(pairings), kept)

    def tell_slow(place: int, seconds: float) -> None:
        LOGGER.warning("Waiting for %.0f s already for %s.", seconds, " against ".join(waiting[place]))

    tell()
    limit = deadline + CHUNK + MARGIN if deadline else 0.0
    conditions = Conditions(retries=RETRIES, deadline=limit, slow_after=slow_after, tell=tell_slow)
    running = (executor or Local()).run(partial(_Player, settings, deadline), waiting, conditions)
    with contextlib.closing(running):
        for place, found in running:
            names = waiting[place]
            lost = isinstance(found, Lost)
            outcome = _failure(names, found, deadline) if lost else given(found, f"{' against '.join(names)}")
            if store is not None and isinstance(outcome, Pairing):
                store.write(outcome)
            outcomes[names] = outcome
            tell()
    return {names: outcomes[names] for names in pairings}


def _failure(names: Names, lost: Lost, deadline: float) -> PairingFailure:
    """Of a pairing that took its process with it: either policy may have done so."""
    policies = tuple(dict.fromkeys(names))
    if lost.kind == HANG:
        return PairingFailure(policies, "Hang", f"no answer within {deadline:g} s")
    return PairingFailure(policies, "WorkerDied", lost.reason)


class _Player:
    """What a worker holds: the pairing that it plays."""

    def __init__(self, settings: Settings, deadline: float) -> None:
        self._settings, self._deadline = settings, deadline
        self._run: PairingRun | None = None
        self._watch = Watch(lambda who, seconds: None)  # whoever runs the executor tells
        self._watch.__enter__()

    def close(self) -> None:
        """Ends the watch."""
        self._watch.__exit__(None, None, None)

    def __call__(self, names: Names) -> Pairing | PairingFailure | None:
        """Begins the pairing or goes on with it; returns its outcome, or None where it is not over yet."""
        if self._run is None:
            self._run = PairingRun(self._settings, names)
        until = time.monotonic() + CHUNK
        while (outcome := self._run.go_on(self._watch, self._deadline)) is None:
            if time.monotonic() > until:
                return None
        self._run = None
        return outcome
