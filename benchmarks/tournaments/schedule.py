"""All pairings of a tournament, played one after the other or by worker processes."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import NamedTuple

from benchmarks.tournaments.pairing import Failure, Pairing, play_pairing
from benchmarks.tournaments.settings import Settings
from benchmarks.tournaments.store import Store

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


class _Worker(NamedTuple):
    process: BaseProcess
    pipe: Connection
    names: Names
    """What it plays."""


def _in_processes(settings: Settings, waiting: list[Names], count: int) -> Generator[Finished, None, None]:
    """Hands the pairings out one by one; the processes end with the generator, however it ends."""
    todo = list(reversed(waiting))
    workers: dict[Connection, _Worker] = {}

    def hand_out(process: BaseProcess, pipe: Connection) -> None:
        names = todo.pop()
        workers[pipe] = _Worker(process, pipe, names)
        with contextlib.suppress(BrokenPipeError):  # it died, as the wait will tell
            pipe.send(names)

    try:
        for _ in range(count):
            hand_out(*_started(settings))
        while workers:
            for pipe in wait(list(workers)):
                assert isinstance(pipe, Connection)
                process, _, names = workers.pop(pipe)
                try:
                    outcome = pipe.recv()
                except (EOFError, ConnectionResetError):
                    process.join()
                    yield Finished(names, _death(names, process.exitcode))
                    if todo:
                        hand_out(*_started(settings))
                    continue
                if todo:
                    hand_out(process, pipe)
                else:
                    pipe.close()
                    process.join()
                if isinstance(outcome, Exception):
                    raise outcome
                yield Finished(names, outcome)
    finally:
        for process, pipe, _ in workers.values():
            process.kill()
            process.join()
            pipe.close()


def _death(names: Names, code: int | None) -> Failure:
    return Failure(tuple(dict.fromkeys(names)), "WorkerDied", f"the process that played ended with code {code}")


def _started(settings: Settings) -> tuple[BaseProcess, Connection]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(settings, theirs), daemon=True)
    with _interrupts_ignored():
        process.start()
    theirs.close()
    return process, ours


@contextlib.contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """A process that starts meanwhile never sees Ctrl-C: its parent ends it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _work(settings: Settings, pipe: Connection) -> None:
    """Plays what the pipe says until it closes, or its parent is gone."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    outcome: Pairing | Failure | Exception
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            names = pipe.recv()
            try:
                outcome = play_pairing(settings, names)
            except Exception as error:  # the parent raises it
                outcome = RuntimeError(f"{' against '.join(names)} could not be played: {error}")
            pipe.send(outcome)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
