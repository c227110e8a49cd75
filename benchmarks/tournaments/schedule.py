"""All pairings of a tournament, played one after the other or by worker processes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from functools import partial
from typing import NamedTuple

from benchmarks.tournaments.pairing import Failure, Pairing, play_pairing
from benchmarks.tournaments.settings import Settings
from benchmarks.tournaments.store import Store
from mage_envs.processes import Lost, Pool, Raised

Names = tuple[str, str]


class Finished(NamedTuple):
    """The outcome of one pairing."""

    names: Names
    outcome: Pairing | Failure


def play_all(
    settings: Settings,
    *,
    workers: int = 1,
    store: Store | None = None,
    on_finished: Callable[[int, int, int], None] | None = None,
) -> dict[Names, Pairing | Failure]:
    """The outcome of every pairing, in the order of `settings.pairings()`, whatever the number of workers.

    `store` keeps each finished pairing and gives back those finished before; failed ones are played again.
    `on_finished(done, all, kept)` is called at the start and after each, `kept` of those done being of an earlier
    run. With more than one worker, the calling script needs the usual `if __name__ == "__main__":`, and policies are
    found by their names in fresh processes. A worker that dies fails its pairing alone.
    """
    if workers < 1:
        raise ValueError(f"workers={workers} must be at least 1.")
    settings.check()
    pairings = settings.pairings()
    outcomes: dict[Names, Pairing | Failure] = {}
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
    running = _in_processes(settings, waiting, count) if count > 1 else _in_turn(settings, waiting)
    with contextlib.closing(running):
        for names, outcome in running:
            if store is not None and isinstance(outcome, Pairing):
                store.write(outcome)
            outcomes[names] = outcome
            tell()
    return {names: outcomes[names] for names in pairings}


def _in_turn(settings: Settings, waiting: list[Names]) -> Generator[Finished, None, None]:
    for names in waiting:
        yield Finished(names, play_pairing(settings, names))


def _in_processes(settings: Settings, waiting: list[Names], count: int) -> Generator[Finished, None, None]:
    """Hands the pairings out one by one; the processes end with the generator, however it ends."""
    todo = list(reversed(waiting))
    playing: dict[int, Names] = {}
    with contextlib.closing(Pool(partial(_player, settings), count)) as pool:

        def hand_out(worker: int) -> None:
            if todo:
                playing[worker] = todo.pop()
                pool.revive(worker)
                pool.call(worker, playing[worker])

        for worker in range(count):
            hand_out(worker)
        while playing:
            worker, outcome = pool.next_outcome()
            names = playing.pop(worker)
            if isinstance(outcome, Lost):
                outcome = Failure(tuple(dict.fromkeys(names)), "WorkerDied", outcome.reason)
            elif isinstance(outcome, Raised):
                raise RuntimeError(f"{' against '.join(names)} could not be played: {outcome.error}")
            hand_out(worker)
            yield Finished(names, outcome)


def _player(settings: Settings) -> Callable[[Names], Pairing | Failure]:
    """What a worker process holds."""
    return partial(play_pairing, settings)
