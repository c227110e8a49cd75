"""Runs that several loops write at the same time: threads, tasks of asyncio, and processes that may be killed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker

from mage_envs.benchmarks.evaluation.suites.environments import game_of, make_envs, seats_of
from mage_envs.benchmarks.evaluation.suites.panels import Panel, weights_of
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.loops.columns import RunJudge
from mage_envs.benchmarks.loops.recorded_env import RecordedEnv
from mage_envs.benchmarks.records.about import about_run, setting_of
from mage_envs.benchmarks.records.identity import OtherRun, compare
from mage_envs.benchmarks.records.record_store import (
    CLAIMS,
    EPISODES,
    ROOT,
    RUN,
    Shards,
    Writer,
    read_about,
    shard_names,
    sort_run,
)
from mage_envs.core import Game, Task
from mage_envs.files.atomic import write_json
from mage_envs.files.claims import DONE, FAILED, open_claims
from mage_envs.files.locking import folder_lock
from mage_envs.opponents import as_pool
from mage_envs.text.generation import Generator
from mage_envs.wrappers.rollout.failure_log import FailureLog
from mage_envs.wrappers.rollout.trajectory import Trajectory

OWN_ROWS = "rows of a loop"
"""Name of the panel of a run whose loop chooses its own tasks."""


class LoopAgent:
    """A loop as an agent: it has a name, and plays by itself."""

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name.strip():
            raise ValueError("A recorded run needs the name of its agent, such as agent='my agent'.")
        self.name = name

    def generator(self, game: Game) -> Generator:
        raise RuntimeError(f"{self.name} is a loop of the user's, which only the user can start.")


class SharedWriter(Writer):
    """Writer of a run that others write, too. A meta-episode is on the disk when `write` returns."""

    def __init__(self, folder: Path, about: Mapping[str, Any]) -> None:
        """Begin or continue a run. Raises OtherRun if the folder holds another run."""
        make_folder(folder)
        with folder_lock(folder):
            super().__init__(folder, about, resume=True, shared=True)
        self._process = os.getpid()
        self._written: tuple[int, ...] | None = None
        """State of the file of the open shard after this writer wrote it."""

    def _file_state(self) -> tuple[int, ...] | None:
        """Return a value that changes if anybody writes the file of the open shard; None if it does not exist."""
        try:
            about = (self.folder / EPISODES / f"{self._shards:05d}.jsonl.gz").stat()
        except FileNotFoundError:
            return None
        return about.st_ino, about.st_size, about.st_mtime_ns

    def write(self, index: int, trajectory: Trajectory) -> None:
        """Write a meta-episode, while the caller holds the lock of the folder."""
        # A shard belongs to one writer, until another one puts the lines in order. A fork begins its own, and so does a
        # second attempt, because the later shard counts.
        is_own = self._process == os.getpid() and self._file_state() == self._written
        if not self._open or index in self.kept or not is_own:
            self._open, self._saved, self._process = [], 0, os.getpid()
            names = shard_names(self.folder) if (self.folder / EPISODES).exists() else []
            self._shards = max((int(Path(name).name.split(".")[0]) for name in names), default=-1) + 1
        super().add(index, trajectory)
        if self._saved < len(self._open):
            self._save()
        self._written = self._file_state()


def make_folder(folder: Path) -> None:
    """Create the folder of a recorded loop. Raises ValueError if a file has its name."""
    if folder.is_file():
        raise ValueError(f"{folder} is a file. Name a folder with out.")
    folder.mkdir(parents=True, exist_ok=True)


def settle_folder(folder: Path) -> None:
    """Put the lines of a run in order and write root.json, once nothing is open or the loop has ended."""
    if not (folder / RUN).exists():
        return
    with folder_lock(folder):
        sort_run(folder)
        write_json(folder / ROOT, Shards(folder).root(), sort_keys=True)


class SharedRun:
    """The run of a panel, whose rows several loops share."""

    def __init__(
        self,
        folder: Path,
        setting: Setting,
        agent: LoopAgent,
        *,
        main: SharedRun | None = None,
        control: str = "",
    ) -> None:
        """Begin or continue the run.

        Args:
            folder: Folder of the run.
            setting: Setting of the run.
            agent: Name of the loop.
            main: The main run, if this one is under a control.
            control: Control of this run, or an empty text.

        Raises:
            OtherRun: If the folder holds another run.
        """
        self.folder, self.setting = folder, setting
        self.judge: RunJudge = RunJudge(setting, folder, None if main is None else main.judge, control)
        self._writer = SharedWriter(folder, about_run(agent, setting))
        self.claims = open_claims(folder / CLAIMS, len(setting.tasks))
        with folder_lock(folder):
            kept = Shards(folder).kept if (folder / RUN).exists() else {}
            self.claims.update(index for index, entry in kept.items() if entry.failure is None)
        # A program that was killed after its last meta-episode may not have done this.
        self.settle()

    def make_env(self, index: int, on_settled: Callable[[], None] = lambda: None) -> RecordedEnv:
        """Return the environment of a row.

        Args:
            index: Index of the row in the panel.
            on_settled: Function that is called if this row was the last one.
        """
        return RecordedEnv(
            make_envs(self.setting.panel.env_id, self.setting.options)[0],
            self.setting.panel.env_id,
            partial(self._finish, index, on_settled),
            task=self.setting.tasks[index],
            judge=partial(self.judge.columns, index),
        )

    def _finish(self, index: int, on_settled: Callable[[], None], trajectory: Trajectory) -> None:
        """Store a meta-episode, and end its claim."""
        with folder_lock(self.folder):
            self._writer.write(index, trajectory)
            note_failures(self.folder, trajectory)
        self.claims.release(index, FAILED if trajectory.failure else DONE)
        if self.settle():
            on_settled()

    @property
    def settled(self) -> bool:
        """Return True if all meta-episodes were played and root.json says so."""
        return (self.folder / ROOT).exists() and not self.claims.open_pieces()

    def settle(self) -> bool:
        """Write root.json if no meta-episode is open. Return True if it was written."""
        if self.claims.open_pieces():
            return False
        settle_folder(self.folder)
        (self.folder / CLAIMS).unlink(missing_ok=True)
        return True


class OwnRun:
    """The run of an environment that a loop resets as it likes: each meta-episode that ends is a new row."""

    def __init__(self, folder: Path, env: gym.Env[Any, Any], agent: LoopAgent) -> None:
        """Begin or continue the run.

        Args:
            folder: Folder of the run.
            env: What `gym.make` returns for the id of a meta-episode.
            agent: Name of the loop.

        Raises:
            OtherRun: If the folder holds another run.
            ValueError: If the environment cannot be made again from its id and JSON options.
        """
        self.folder, self._agent = folder, agent
        self._panel, self._env_kwargs = own_panel(env)
        self.env_id = self._panel.env_id
        make_folder(folder)
        about = self._describe(())
        if (folder / RUN).exists():
            recorded = read_about(folder)
            # The rows of such a run are its own, and a panel's must not get others.
            if (name := recorded["setting"]["name"]) != OWN_ROWS:
                raise OtherRun(f"{folder} holds a run of {name}, whose rows are given. Record in another folder.")
            compare(_without_rows(recorded), _without_rows(about), folder)
            about = recorded
        self._writer = SharedWriter(folder, about)

    def is_for(self, env: gym.Env[Any, Any]) -> bool:
        """Return True if an environment has the id and the options of the run."""
        return own_panel(env) == (self._panel, self._env_kwargs)

    @cached_property
    def _judge(self) -> RunJudge:
        return RunJudge(Setting(self._panel, OWN_ROWS, self._env_kwargs), self.folder)

    def columns(self, trajectory: Trajectory) -> dict[str, float]:
        """Return the exact columns of a meta-episode."""
        return self._judge.columns(0, trajectory)

    def _describe(self, rows: Sequence[Task]) -> dict[str, Any]:
        setting = Setting(replace(self._panel, rows=tuple(rows)), OWN_ROWS, self._env_kwargs)
        return about_run(self._agent, setting)

    def add(self, trajectory: Trajectory) -> None:
        """Store a meta-episode as a new row. Its task names the opponent and the seat that the environment drew."""
        task = trajectory.task
        if task.opponent is not None and task.opponent not in self._panel.weights():
            raise ValueError(
                f"{self.folder} records the pool {', '.join(self._panel.weights())}, and {task.opponent} is not in it. "
                "Make the environment with opponent=..., and record it in another folder."
            )
        with folder_lock(self.folder):
            rows: Sequence[Task] = ()
            started = {}
            if (self.folder / RUN).exists():
                about = read_about(self.folder)
                rows, started = setting_of(about).tasks, {"started": about["started"]}
            # Before the line, because a reader refuses a line of a row that run.json does not have.
            write_json(self.folder / RUN, {**self._describe((*rows, task)), **started}, sort_keys=True)
            self._writer.write(len(rows), trajectory)
            note_failures(self.folder, trajectory)


def own_panel(env: gym.Env[Any, Any]) -> tuple[Panel, dict[str, Any]]:
    """Return a panel without rows for an environment, and the options of the environment.

    Raises:
        ValueError: If the environment cannot be made again from its id and JSON options.
    """
    spec = env.spec
    if spec is None or not env.has_wrapper_attr("env_metadata"):
        raise ValueError("record() needs what gym.make returns for an id that ends with -Meta-v0.")
    kwargs = {key: value for key, value in spec.kwargs.items() if key != "game_name"}
    if _wrappers(env) != _wrappers(make_envs(spec.id, kwargs)[0]):
        raise ValueError(f"record() needs what gym.make returns, got {env}. Put other wrappers around record().")
    opponents = kwargs.pop("opponent", None) or env.get_wrapper_attr("settings").opponent
    has_opponents = game_of(spec.id, kwargs).spec.players > 1
    try:
        # Policies, memories and other objects are refused, because no reader could make them again.
        kwargs = json.loads(json.dumps(kwargs))
        json.dumps(as_pool(opponents).entries if has_opponents else [])
    except TypeError as error:
        raise ValueError(f"A record names its options, and {spec.id} has one without a name: {error}.") from error
    weights = weights_of(opponents) if has_opponents else {}
    seats = tuple(seat for seat in seats_of(spec.id, kwargs) if seat is not None)
    return Panel(env_id=spec.id, about="", seed=0, size=0, opponents=weights, seats=seats, rows=()), kwargs


def _wrappers(env: gym.Env[Any, Any]) -> list[type]:
    """Return the wrappers that change what is played, outermost first."""
    wrappers: list[type] = []
    while isinstance(env, gym.Wrapper):
        if not isinstance(env, PassiveEnvChecker | OrderEnforcing):
            wrappers.append(type(env))
        env = env.env
    return wrappers


def _without_rows(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return what must be equal to continue a run: all but the rows so far."""
    setting = {key: about["setting"][key] for key in ("options", "weights")}
    return {"agent": about["agent"], "setting": setting}


def note_failures(folder: Path, trajectory: Trajectory) -> None:
    """Append the tracebacks of a failed meta-episode to failures.jsonl, as an evaluation does."""
    if trajectory.failures:
        FailureLog(folder).record([trajectory], "eval", 0)
