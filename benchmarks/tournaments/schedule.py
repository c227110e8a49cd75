"""All pairings of a tournament, played one after the other or by worker processes."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Generator
from functools import partial
from typing import NamedTuple

from benchmarks.tournaments.pairing import Pairing, PairingFailure, PairingRun
from benchmarks.tournaments.settings import Settings
from benchmarks.tournaments.store import Store
from mage_envs.processes import DEADLINE, SLOW, Lost, Pool, Raised, Watch
from mage_envs.processes.outcomes import HANG

Names = tuple[str, str]
LOGGER = logging.getLogger(__name__)
CHUNK = 0.5
"""Seconds of play after which a worker that has begun a pairing shows that it goes on."""
MARGIN = 2.0
"""Seconds that a worker has beyond a deadline to end the call by itself, which names the policy; then it is killed."""


class Finished(NamedTuple):
    """The outcome of one pairing."""

    names: Names
    outcome: Pairing | PairingFailure


def play_all(
    settings: Settings,
    *,
    workers: int = 1,
    deadline: float = DEADLINE,
    slow_after: float = SLOW,
    store: Store | None = None,
    on_finished: Callable[[int, int, int], None] | None = None,
) -> dict[Names, Pairing | PairingFailure]:
    """The outcome of every pairing, in the order of `settings.pairings()`, whatever the number of workers.

    `store` keeps each finished pairing and gives back those finished before; failed ones are played again.
    `on_finished(done, all, kept)` is called at the start and after each, `kept` of those done being of an earlier
    run. With more than one worker, the calling script needs the usual `if __name__ == "__main__":`, and policies are
    found by their names in fresh processes. A worker that dies fails its pairing alone.

    Neither a deal, played from both seats, nor the making of a pairing's policies and exact values may take longer
    than `deadline` seconds (0: for ever): that is a failure of type Hang. In this process, it is found as far as
    `Watch` can. After `slow_after` seconds without a move on, a logged line names the pairing.
    """
    if not deadline >= 0:
        raise ValueError(f"deadline={deadline!r} must be a number of seconds, 0 for none.")
    if workers < 1:
        raise ValueError(f"workers={workers} must be at least 1.")
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

    tell()
    count = min(workers, len(waiting))
    limits = deadline, slow_after
    running = _in_processes(settings, waiting, count, *limits) if count > 1 else _in_turn(settings, waiting, *limits)
    with contextlib.closing(running):
        for names, outcome in running:
            if store is not None and isinstance(outcome, Pairing):
                store.write(outcome)
            outcomes[names] = outcome
            tell()
    return {names: outcomes[names] for names in pairings}


def _in_turn(
    settings: Settings, waiting: list[Names], deadline: float, slow_after: float
) -> Generator[Finished, None, None]:
    with Watch(_tell_slow, slow_after) as watch:
        for names in waiting:
            run = PairingRun(settings, names)
            while (outcome := run.go_on(watch, deadline)) is None:
                pass
            yield Finished(names, outcome)


def _in_processes(
    settings: Settings, waiting: list[Names], count: int, deadline: float, slow_after: float
) -> Generator[Finished, None, None]:
    """Hands the pairings out one by one; the processes end with the generator, however it ends."""
    todo = list(reversed(waiting))
    playing: dict[int, Names] = {}

    def tell_slow(worker: int, seconds: float) -> None:
        _tell_slow(" against ".join(playing[worker]), seconds)

    make = partial(_Player, settings, deadline)
    with contextlib.closing(Pool(make, count, slow_after=slow_after, on_slow=tell_slow)) as pool:

        def go_on(worker: int) -> None:
            pool.call(worker, playing[worker], deadline=deadline + CHUNK + MARGIN if deadline else 0.0)

        def hand_out(worker: int) -> None:
            if todo:
                playing[worker] = todo.pop()
                pool.revive(worker)
                go_on(worker)

        for worker in range(count):
            hand_out(worker)
        while playing:
            worker, outcome = pool.next_outcome()
            if outcome is None:
                go_on(worker)
                continue
            names = playing.pop(worker)
            if isinstance(outcome, Lost):
                outcome = _failure(names, outcome, deadline)
            elif isinstance(outcome, Raised):
                raise RuntimeError(f"{' against '.join(names)} could not be played: {outcome.error}")
            hand_out(worker)
            yield Finished(names, outcome)


def _failure(names: Names, lost: Lost, deadline: float) -> PairingFailure:
    """Of a pairing that took its process with it: either policy may have done so."""
    policies = tuple(dict.fromkeys(names))
    if lost.kind == HANG:
        return PairingFailure(policies, "Hang", f"no answer within {deadline:g} s")
    return PairingFailure(policies, "WorkerDied", lost.reason)


def _tell_slow(pairing: str, seconds: float) -> None:
    LOGGER.warning("Waiting for %.0f s already for %s.", seconds, pairing)


class _Player:
    """What a worker process holds: the pairing that it plays."""

    def __init__(self, settings: Settings, deadline: float) -> None:
        self._settings, self._deadline = settings, deadline
        self._run: PairingRun | None = None
        self._watch = Watch(lambda who, seconds: None)  # the parent tells
        self._watch.__enter__()

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
