"""Checks that the files of a run are complete and agree with each other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from sys import intern
from typing import Any, NamedTuple

from mage_envs.benchmarks.canonical import digest_of
from mage_envs.benchmarks.evaluation.run.summary import summary_of
from mage_envs.benchmarks.evaluation.scoring.call_stats import without_texts
from mage_envs.benchmarks.evaluation.scoring.scores import Summary
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.evaluation.tables.summary_table import SUMMARY, load
from mage_envs.benchmarks.records.about import setting_of
from mage_envs.benchmarks.records.control_runs import prepare_control, stored_controls
from mage_envs.benchmarks.records.identity import differences, short
from mage_envs.benchmarks.records.lines import chats
from mage_envs.benchmarks.records.record_store import (
    ROOT,
    RUN,
    SUITE,
    Shards,
    read_about,
    read_suite,
    reading,
)
from mage_envs.benchmarks.records.schema import RootRecord
from mage_envs.files.bounded import read_json_inside
from mage_envs.wrappers.rollout.line_schema import problems_of
from mage_envs.wrappers.rollout.trajectory import EpisodeResult, Trajectory
from mage_envs.wrappers.rollout.trajectory_json import Line, plain, trajectory_from_json


class CheckedRun(NamedTuple):
    """Result of the check of a run."""

    problems: list[str]
    """Problems, one line each; empty if the run is valid."""
    root: str
    meta_episodes: int
    planned: int


def problems(folder: Path) -> list[str]:
    """Return the problems of a run and its controls, one line each, or an empty list if it is valid. Raise NoRun.

    Names in the run resolve as `names_from` allows: a module is imported only if the user named it.
    """
    return check_run(folder).problems


def check_run(folder: Path) -> CheckedRun:
    """Check a run, one line after the other. Raises NoRun if the folder contains none."""
    with reading(folder):
        check = _LineChecks(folder)
        shards = Shards(folder, check.add)
        found_problems = list(_problems(shards, check))
        checked = CheckedRun(found_problems, shards.root()["root"], len(shards.kept), shards.planned)
    for name, path in stored_controls(folder).items():
        try:
            prepare_control(name, path, folder)
        except ValueError as error:
            found_problems.append(str(error))
            continue
        found_problems += [f"controls/{name}: {problem}" for problem in check_run(path).problems]
    return checked


class _LineChecks:
    """Checks of the lines of a run. Of each line, its problems and the fields that scores read stay in memory."""

    def __init__(self, folder: Path) -> None:
        about = read_about(folder)
        self.setting: Setting | None = None
        self.no_setting = ""
        """Reason why the setting cannot be rebuilt."""
        self.trajectories: dict[int, Trajectory] = {}
        self._shared: dict[Any, Any] = {}
        self._episodes: dict[tuple[Any, ...], EpisodeResult] = {}
        self.other_tasks: dict[int, list[str]] = {}
        self.unreadable: dict[int, str] = {}
        try:
            self.setting = setting_of(about)
            _ = self.setting.fingerprint
        except (ValueError, LookupError, TypeError, OSError, ImportError) as error:
            self.setting, self.no_setting = None, str(error)

    def add(self, line: Line) -> None:
        """Check a line. The last one of an index counts."""
        if self.setting is None:
            return
        index, task = line["index"], self.setting.tasks[line["index"]]
        self.other_tasks.pop(index, None)
        for name, value in line["task"].items():
            if value != vars(task)[name]:
                problem = f"meta-episode {index}: its {name} is {value!r}, and the panel's {vars(task)[name]!r}"
                self.other_tasks.setdefault(index, []).append(problem)
        self.unreadable.pop(index, None)
        # What reports, exports and replays make of the records.
        try:
            chats(line["calls"])
            trajectory = without_texts(trajectory_from_json(line))
        except (ValueError, LookupError, TypeError, ArithmeticError) as error:
            self.unreadable[index] = f"meta-episode {index}: it cannot be read as one ({type(error).__name__}: {error})"
            return
        # Equal parts are one object, because a large run has few different ones.
        self.trajectories[index] = replace(
            trajectory,
            task=task if trajectory.task == task else trajectory.task,
            opponent=intern(trajectory.opponent),
            steps=self._share(trajectory.steps),
            episodes=tuple(map(self._share_episode, trajectory.episodes)),
        )

    def _share(self, value: Any) -> Any:
        """Return the first value that was equal to this one."""
        return self._shared.setdefault(value, value)

    def _share_episode(self, episode: EpisodeResult) -> EpisodeResult:
        """Return the first equal episode, without its last observations, which no score reads."""
        # A dict cannot be a key.
        key = (*episode._replace(metrics=(), ended_with=()), *episode.metrics.items())  # type: ignore[arg-type]
        shared: EpisodeResult = self._episodes.setdefault(key, episode._replace(ended_with=()))
        return shared

    def in_order(self) -> list[Trajectory]:
        """Return the meta-episodes in the order of the panel."""
        return [trajectory for _, trajectory in sorted(self.trajectories.items())]


def _problems(shards: Shards, check: _LineChecks) -> Iterator[str]:
    yield from map(str, shards.problems)
    yield from _root_problems(shards)
    setting, about = check.setting, shards.about
    if setting is None:
        yield f"{RUN}: its setting cannot be rebuilt ({check.no_setting})"
        return
    for path, recorded, current in differences(about["setting"], json.loads(json.dumps(setting.to_json())), "setting"):
        rebuilt = json.dumps(current)
        yield f"{RUN}: {path} is {json.dumps(recorded)}, and this version with these data makes {rebuilt}"
    if setting.fingerprint != about["fingerprint"]:
        yield f"{RUN}: the fingerprint is {about['fingerprint'][:12]}, not {setting.fingerprint[:12]}"
    for index in sorted(check.other_tasks):
        yield from check.other_tasks[index]
    if check.unreadable:
        yield check.unreadable[min(check.unreadable)]
        return
    trajectories = check.in_order()
    if not trajectories:
        return
    try:
        summary = summary_of(about["agent"]["name"], setting, trajectories)
    except (ValueError, LookupError, TypeError, ArithmeticError) as error:
        yield f"the run cannot be scored ({type(error).__name__}: {error})"
        return
    # Damaged lines are missing from the scores, so the summary would differ for that reason alone.
    if not shards.problems:
        yield from _summary_problems(shards.folder, summary)


def _root_problems(records: Shards) -> Iterator[str]:
    try:
        root = read_json_inside(records.folder, ROOT)
    except (OSError, ValueError) as error:
        yield f"{ROOT}: cannot be read ({error})"
        return
    if problem := next(problems_of(RootRecord, root), None):
        yield f"{ROOT}: {problem}"
        return
    for path, recorded, computed in differences(root, records.root()):
        yield f"{ROOT}: {path} is {json.dumps(recorded)}, and the records give {json.dumps(computed)}"


def _summary_problems(folder: Path, summary: Summary) -> Iterator[str]:
    """Yield the differences between the stored summary and the one of the records."""
    if not (folder / SUMMARY).exists():
        return
    try:
        stored = read_json_inside(folder, SUMMARY)
        if not isinstance(stored, dict):
            raise ValueError("it must be a JSON object")
        # The baselines are scores of other policies, which have no records here. Only their form is checked.
        load(folder)
    except (OSError, ValueError, LookupError, TypeError) as error:
        yield f"{SUMMARY}: cannot be read ({error})"
        return
    computed = json.loads(json.dumps(plain(summary.to_json())))
    computed["floors"] = stored.get("floors", [])
    for path, stored_value, computed_value in differences(stored, computed):
        # Sums of floats may differ in the last bits between machines.
        if not (
            isinstance(stored_value, float)
            and isinstance(computed_value, float)
            and abs(stored_value - computed_value) < 1e-9
        ):
            yield f"{SUMMARY}: {path} is {short(stored_value)}, and the records give {short(computed_value)}"


def suite_problems(folder: Path) -> Iterator[str]:
    """Yield the contradictions between a folder's suite.json and its runs; none if it contains no suite."""
    try:
        plan = read_suite(folder)
        if plan is None:
            return
        for run in plan["runs"]:
            if not (folder / run["folder"] / RUN).exists():
                yield f"{SUITE}: there is no run {run['folder']}"
                continue
            root = Shards(folder / run["folder"]).root()["root"]
            if run.get("root") not in (None, root):
                yield f"{SUITE}: the root of {run['folder']} is {run['root'][:12]}, and the records give {root[:12]}"
        if plan.get("root") is None:
            yield f"{SUITE}: it is not complete; resume it with mage eval … --suite … --resume"
        elif plan["root"] != digest_of([run.get("root") for run in plan["runs"]]):
            yield f"{SUITE}: its root does not match the roots of its runs"
    except (ValueError, OSError) as error:
        yield f"{SUITE}: cannot be read ({error})"
