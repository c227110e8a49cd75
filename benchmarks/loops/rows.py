"""`mage_envs.record` and `mage_envs.rows`: the doors for a loop of one's own.

    for env, prompt, info in mage_envs.rows("adapt-mini", out="runs/mine", agent="my agent"):
        over = False
        while not over:
            reply = my_agent(info["messages"])
            prompt, reward, terminated, truncated, info = env.step(reply)
            over = terminated or truncated

`mage adapt runs/mine` scores what the loop recorded. Any number of threads, tasks and processes may run the loop at the
same time: each row is played by one of them. A loop that starts again plays the rows that are missing.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, get_args
from weakref import WeakValueDictionary, finalize

import gymnasium as gym

from mage_envs.benchmarks.evaluation.suites.panels import full_name, named_panel
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.loops.columns import results_of
from mage_envs.benchmarks.loops.recorded_env import RecordedEnv
from mage_envs.benchmarks.loops.shared_run import LoopAgent, OwnRun, SharedRun, make_folder, settle_folder
from mage_envs.benchmarks.records.controls import apply_control
from mage_envs.benchmarks.records.record_store import ROOT
from mage_envs.benchmarks.runs.adapt_suite import VERDICT, AdaptPlan, SuiteName, plan_adapt
from mage_envs.benchmarks.runs.suite_folder import begin, finish
from mage_envs.core import Task
from mage_envs.files.locking import folder_lock
from mage_envs.wrappers.controls import SOURCED

LOGGER = logging.getLogger(__name__)
WAIT_S = 0.2
"""Pause in seconds between two looks at rows that others play."""
WARN_AFTER_S = 10.0
"""Seconds of waiting after which a warning names the row."""
Row = tuple[RecordedEnv, str, dict[str, Any]]
"""An environment after its reset, its first prompt, and its info."""


def record(env: gym.Env[Any, Any], out: str | Path, agent: str = "my agent") -> RecordedEnv:
    """Return the environment, with a record of each meta-episode that ends.

    A meta-episode is on the disk when its last `step` returns. Threads and processes may record into one folder, and a
    program that starts again adds to it. `close` writes the digest of the whole run.

    Args:
        env: What `gym.make` returns for an id that ends with -Meta-v0. Further wrappers belong around the result.
        out: Folder of the run.
        agent: Name of the agent in tables.

    Raises:
        OtherRun: If the folder holds another run.
        ValueError: If the environment cannot be made again from its id and JSON options.
    """
    run = _open_own(Path(out), env, LoopAgent(agent))
    recorded = RecordedEnv(env, run.env_id, run.add, judge=run.columns)
    recorded.settle = partial(settle_folder, run.folder)
    return recorded


_OWN_RUNS: WeakValueDictionary[tuple[int, Path, str], OwnRun] = WeakValueDictionary()
"""Runs that this process records, by process id, folder and agent. Each is read once for all its environments."""
_OWN_LOCK = threading.Lock()


def _open_own(folder: Path, env: gym.Env[Any, Any], agent: LoopAgent) -> OwnRun:
    """Return the run of a folder. When its last environment is gone, or when the program ends, it is settled."""
    key = (os.getpid(), folder.absolute(), agent.name)
    with _OWN_LOCK:
        run = _OWN_RUNS.get(key)
        if run is None or not run.is_for(env):
            run = _OWN_RUNS[key] = OwnRun(folder, env, agent)
            finalize(run, settle_folder, folder.absolute())
        return run


def rows(
    name: str,
    out: str | Path,
    agent: str = "my agent",
    *,
    memory: str | None = None,
    pool: str | None = None,
    controls: bool | None = None,
    options: Mapping[str, Any] | None = None,
) -> Rows:
    """Return the rows of a suite or a panel, which a loop plays one after the other or many at a time.

    Args:
        name: `adapt`, `adapt-mini`, or a panel, such as `kuhn-paper-128`.
        out: Folder of the records. Rows that it holds are left out.
        agent: Name of the agent in tables.
        memory: Memory of the environment (default: `history` in a suite, else the environment's).
        pool: In a suite: `described`, `hidden` or `both`, as in `mage adapt` (default: as for a model).
        controls: True to play the same tasks without memory and with another opponent's, too, which the verdict needs
            (default: only in a suite). Use False for a loop with a memory of its own, which these rows cannot empty.
        options: For a panel: further options of the environment.

    Raises:
        OtherRun: If the folder holds another run or suite.
        ValueError: If an argument is wrong.
    """
    loop, folder = LoopAgent(agent), Path(out)
    if (suite := _suite_named(name)) is not None:
        if options:
            raise ValueError(f"The runs of the suite {name} have their options. Remove options, or name a panel.")
        used = VERDICT if controls is not False else ()
        plan = plan_adapt(suite, agent, loop, memory=memory, pool=pool, controls=used)
        runs: dict[Path, _LoopRun] = {}
        for planned in plan.runs:
            # The control `none` copies nothing, and has the same main run.
            main = runs.get(folder / planned.block / plan.rows[0].name)
            runs[folder / planned.folder] = _LoopRun(
                folder / planned.folder,
                partial(planned.setting_in, folder),
                loop,
                main=main if planned.row.control else None,
                control=planned.row.control or "",
            )
        return Rows(
            folder, list(runs.values()), partial(_begin_suite, folder, plan), partial(_finish_suite, folder, plan)
        )
    if pool is not None:
        raise ValueError(
            f"pool applies to the suites {' and '.join(get_args(SuiteName))}. Remove it, or use one of them."
        )
    chosen = {**(options or {}), **({} if memory is None else {"memory": memory})}
    setting = Setting(named_panel(name), full_name(name), chosen)
    main = _LoopRun(folder, lambda: setting, loop)
    others = [
        _LoopRun(
            folder / "controls" / control,
            partial(apply_control, setting, control, str(folder) if control in SOURCED else None),
            loop,
            main=main,
            control=control,
        )
        for control in VERDICT
    ]
    return Rows(folder, [main, *(others if controls else [])])


def _suite_named(name: str) -> SuiteName | None:
    """Return the suite of a name, or None if it is that of a panel."""
    return next((suite for suite in get_args(SuiteName) if suite == name), None)


def _begin_suite(folder: Path, plan: AdaptPlan) -> None:
    """Write the plan, or compare it with that in the folder."""
    make_folder(folder)
    with folder_lock(folder):
        begin(folder, plan.to_json(), resume=True)


def _finish_suite(folder: Path, plan: AdaptPlan) -> None:
    """Write the roots of all runs into suite.json, once all have one."""
    if all((folder / run.folder / ROOT).exists() for run in plan.runs):
        with folder_lock(folder):
            finish(folder, plan.to_json(), plan.runs)


class _LoopRun:
    """A run that is opened when a loop comes to it, because the memories of a control are those of another run."""

    def __init__(
        self,
        folder: Path,
        make_setting: Callable[[], Setting],
        agent: LoopAgent,
        *,
        main: _LoopRun | None = None,
        control: str = "",
    ) -> None:
        self.folder, self.control, self._make_setting, self._agent, self._main = (
            folder,
            control,
            make_setting,
            agent,
            main,
        )
        self._shared: SharedRun | None = None
        self._lock = threading.Lock()

    def open(self) -> SharedRun:
        """Return the run, whose folder is created if needed."""
        with self._lock:
            if self._shared is None:
                main = None if self._main is None else self._main.open()
                self._shared = SharedRun(
                    self.folder, self._make_setting(), self._agent, main=main, control=self.control
                )
            return self._shared

    @property
    def tasks(self) -> Sequence[Task]:
        """Return the tasks of the rows. A control has those of its main run."""
        return self._make_setting().tasks if self._main is None else self._main.tasks

    @property
    def source(self) -> _LoopRun | None:
        """Return the run from which memories are copied, which must be finished before; None without one."""
        return self._main if self.control in SOURCED else None


class RowPlace(NamedTuple):
    """Place of a row, for `Rows.start`."""

    run: int
    row: int
    name: str
    """Folder of the run below that of the record; `.` for the main run of a panel."""
    task: Task


class Rows:
    """Rows of several runs, as an iterator for `for` and for `async for`. Each row is yielded at most once."""

    def __init__(
        self,
        folder: Path,
        runs: Sequence[_LoopRun],
        on_begin: Callable[[], None] = lambda: None,
        on_settled: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare the rows. Nothing is written before the first one is started.

        Args:
            folder: Folder of the record.
            runs: The runs.
            on_begin: Function that is called before the first row.
            on_settled: Function that is called when a run is finished.
        """
        self.folder = folder
        # Runs that copy memories come last, so that no loop waits while there is something to play.
        self.runs = sorted(runs, key=lambda run: run.source is not None)
        self._on_begin: Callable[[], None] | None = on_begin
        self._on_settled = on_settled
        self._lock = threading.Lock()

    def _begin(self) -> None:
        with self._lock:
            if self._on_begin is not None:
                self._on_begin()
                self._on_begin = None

    def results(self) -> Mapping[str, float]:
        """Return the level and the adaptation of the whole record, as `mage adapt` computes them; empty without them.

        Raises:
            ValueError: If the record is not complete.
        """
        return results_of(self.folder)

    def places(self) -> list[RowPlace]:
        """Return all rows in the order of play."""
        return [
            RowPlace(number, index, str(run.folder.relative_to(self.folder)), task)
            for number, run in enumerate(self.runs)
            for index, task in enumerate(run.tasks)
        ]

    def claim(self, run: int, row: int) -> bool:
        """Claim a row for `start`. Return False if it is played or another loop plays it."""
        self._begin()
        return self.runs[run].open().claims.claim(row)

    def start(self, run: int, row: int) -> Row | None:
        """Return a row that this loop plays now, or None if the run that it copies memories from is not finished.

        A row that was played is played again, and the new record counts.

        Args:
            run: Index in `runs`.
            row: Index of the row in its panel.
        """
        self._begin()
        source = self.runs[run].source
        if source is not None and not source.open().settled:
            return None
        shared = self.runs[run].open()
        shared.claims.claim(row)
        return self._start(shared, row)

    def _start(self, run: SharedRun, index: int) -> Row:
        env = run.make_env(index, self._on_settled)
        # A row that is dropped before its end is free for others, and for this loop when it runs again.
        finalize(env, run.claims.release, index)
        prompt, info = env.reset()
        return env, prompt, info

    def __iter__(self) -> Iterator[Row]:
        return _Shared(self._waiting_rows())

    def _waiting_rows(self) -> Iterator[Row]:
        for row in self._steps():
            if row is None:
                time.sleep(WAIT_S)
            else:
                yield row

    async def __aiter__(self) -> AsyncIterator[Row]:
        for row in self._steps():
            if row is None:
                await asyncio.sleep(WAIT_S)
            else:
                yield row

    def _steps(self) -> Iterator[Row | None]:
        """Yield each row, or None while this loop has to wait for rows that others play."""
        self._begin()
        yielded: defaultdict[Path, set[int]] = defaultdict(set)
        for run in self.runs:
            if run.source is not None:
                yield from self._wait_for(run.source.open(), yielded[run.source.folder])
            yield from self._open_rows(run.open(), yielded[run.folder])
        # A program that was killed may have finished the rows, but not the suite.
        if all(run.open().settled for run in self.runs):
            self._on_settled()

    def _open_rows(self, run: SharedRun, yielded: set[int]) -> Iterator[Row]:
        for index in run.claims.open_pieces():
            if index not in yielded and run.claims.claim(index):
                yielded.add(index)
                yield self._start(run, index)

    def _wait_for(self, run: SharedRun, yielded: set[int]) -> Iterator[Row | None]:
        """Yield None until all rows of a run are finished, and rows whose process died."""
        warn_at = time.monotonic() + WARN_AFTER_S
        while open_rows := run.claims.open_pieces():
            yield from self._open_rows(run, yielded)
            for index in open_rows:
                if index in yielded and not run.claims.is_claimed(index):
                    raise RuntimeError(
                        f"Row {index} of {run.folder} was started and not finished, so the runs that copy its memories "
                        "cannot be played. Run the loop again."
                    )
            if time.monotonic() > warn_at:
                warn_at += WARN_AFTER_S
                LOGGER.warning(
                    "Row %d of %s was started and is not finished. Waiting for it.", open_rows[0], run.folder
                )
            yield None


class _Shared:
    """An iterator that several threads may share."""

    def __init__(self, iterator: Iterator[Row]) -> None:
        self._iterator, self._lock = iterator, threading.Lock()

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        with self._lock:
            return next(self._iterator)
