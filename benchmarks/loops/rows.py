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
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args
from weakref import finalize

import gymnasium as gym

from mage_envs.benchmarks.evaluation.suites.panels import full_name, named_panel
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.loops.recorded_env import RecordedEnv
from mage_envs.benchmarks.loops.shared_run import LoopAgent, OwnRun, SharedRun
from mage_envs.benchmarks.records.controls import apply_control
from mage_envs.benchmarks.records.record_store import ROOT
from mage_envs.benchmarks.runs.adapt_suite import VERDICT, AdaptPlan, SuiteName, plan_adapt
from mage_envs.benchmarks.runs.suite_folder import begin, finish
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
    run = OwnRun(Path(out), env, LoopAgent(agent))
    recorded = RecordedEnv(env, run.env_id, run.add)
    # At the latest when the program ends. `close` does it earlier.
    recorded.settle = finalize(recorded, run.settle)
    return recorded


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
        folder.mkdir(parents=True, exist_ok=True)
        with folder_lock(folder):
            begin(folder, plan.to_json(), resume=True)
        runs = [_LoopRun(folder / run.folder, partial(run.setting_in, folder), loop) for run in plan.runs]
        by_folder = {run.folder: run for run in runs}
        for run, planned in zip(runs, plan.runs, strict=True):
            if planned.row.source is not None:
                run.source = by_folder[folder / planned.block / planned.row.source]
        return Rows(runs, partial(_finish_suite, folder, plan))
    if pool is not None:
        raise ValueError(
            f"pool applies to the suites {' and '.join(get_args(SuiteName))}. Remove it, or use one of them."
        )
    chosen = {**(options or {}), **({} if memory is None else {"memory": memory})}
    setting = Setting(named_panel(name), full_name(name), chosen)
    runs = [_LoopRun(folder, lambda: setting, loop)]
    for control in VERDICT if controls else ():
        source = str(folder) if control in SOURCED else None
        run = _LoopRun(folder / "controls" / control, partial(apply_control, setting, control, source), loop)
        run.source = runs[0] if source else None
        runs.append(run)
    return Rows(runs)


def _suite_named(name: str) -> SuiteName | None:
    """Return the suite of a name, or None if it is that of a panel."""
    return next((suite for suite in get_args(SuiteName) if suite == name), None)


def _finish_suite(folder: Path, plan: AdaptPlan) -> None:
    """Write the roots of all runs into suite.json, once all have one."""
    if all((folder / run.folder / ROOT).exists() for run in plan.runs):
        with folder_lock(folder):
            finish(folder, plan.to_json(), plan.runs)


class _LoopRun:
    """A run that is opened when a loop comes to it, because the memories of a control are those of another run."""

    def __init__(self, folder: Path, make_setting: Callable[[], Setting], agent: LoopAgent) -> None:
        self.folder, self._make_setting, self._agent = folder, make_setting, agent
        self.source: _LoopRun | None = None
        """Run from which memories are copied. It must be finished before."""
        self._shared: SharedRun | None = None
        self._lock = threading.Lock()

    def open(self) -> SharedRun:
        """Return the run, whose folder is created if needed."""
        with self._lock:
            if self._shared is None:
                self._shared = SharedRun(self.folder, self._make_setting(), self._agent)
            return self._shared


class Rows:
    """Rows of several runs, as an iterator for `for` and for `async for`. Each row is yielded at most once."""

    def __init__(self, runs: Sequence[_LoopRun], on_settled: Callable[[], None] = lambda: None) -> None:
        """Prepare the rows.

        Args:
            runs: The runs.
            on_settled: Function that is called when a run is finished.
        """
        # Runs that copy memories come last, so that no loop waits while there is something to play.
        self.runs = sorted(runs, key=lambda run: run.source is not None)
        self._on_settled = on_settled

    def start(self, run: int, index: int) -> Row | None:
        """Return a row that this loop plays now, or None if the run that it copies memories from is not finished.

        Args:
            run: Index in `runs`.
            index: Index of the row in its panel.
        """
        source = self.runs[run].source
        if source is not None and not source.open().settled:
            return None
        shared = self.runs[run].open()
        shared.claims.claim(index)
        return self._start(shared, index)

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
