"""Checks that the files of a run are complete and agree with each other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from mage_envs.benchmarks.canonical import digest_of
from mage_envs.benchmarks.evaluation.run.summary import summary_of
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.evaluation.tables.summary_table import SUMMARY, load
from mage_envs.benchmarks.records.about import setting_of
from mage_envs.benchmarks.records.control_runs import open_control, stored_controls
from mage_envs.benchmarks.records.identity import differences, short
from mage_envs.benchmarks.records.lines import chats
from mage_envs.benchmarks.records.record_store import (
    ROOT,
    RUN,
    SUITE,
    Records,
    read_suite,
    reading,
)
from mage_envs.benchmarks.records.schema import RootRecord
from mage_envs.files.bounded import read_json_inside
from mage_envs.wrappers.rollout.line_schema import problems_of
from mage_envs.wrappers.rollout.trajectory_json import plain, trajectory_from_json


def problems(folder: Path) -> list[str]:
    """Return the problems of a run and its controls, one line each, or an empty list if it is valid. Raise NoRun.

    Names in the run resolve as `names_from` allows: a module is imported only if the user named it.
    """
    with reading(folder):
        records = Records(folder)
        found_problems = list(_problems(records))
    for name, path in stored_controls(folder).items():
        try:
            control = open_control(name, path, records)
        except ValueError as error:
            found_problems.append(str(error))
            continue
        with reading(path):
            found_problems += [f"controls/{name}: {problem}" for problem in _problems(control)]
    return found_problems


def _problems(records: Records) -> Iterator[str]:
    yield from map(str, records.problems)
    yield from _root_problems(records)
    try:
        setting = setting_of(records.about)
        setting_differences = differences(
            records.about["setting"], json.loads(json.dumps(setting.to_json())), "setting"
        )
        for path, recorded, current in setting_differences:
            rebuilt = json.dumps(current)
            yield f"{RUN}: {path} is {json.dumps(recorded)}, and this version with these data makes {rebuilt}"
        if setting.fingerprint != records.about["fingerprint"]:
            yield f"{RUN}: the fingerprint is {records.about['fingerprint'][:12]}, not {setting.fingerprint[:12]}"
    except (ValueError, LookupError, TypeError, OSError, ImportError) as error:
        yield f"{RUN}: its setting cannot be rebuilt ({error})"
        return
    yield from _task_problems(records, setting)
    yield from _reading_problems(records, setting)
    # Damaged lines are missing from the scores, so the summary would differ for that reason alone.
    if not records.problems:
        yield from _summary_problems(records, setting)


def _root_problems(records: Records) -> Iterator[str]:
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


def _task_problems(records: Records, setting: Setting) -> Iterator[str]:
    for index, line in sorted(records.lines.items()):
        task = setting.tasks[index]
        for name, value in line["task"].items():
            if value != vars(task)[name]:
                yield f"meta-episode {index}: its {name} is {value!r}, and the panel's {vars(task)[name]!r}"


def _reading_problems(records: Records, setting: Setting) -> Iterator[str]:
    """Yield the errors of what reports, exports and replays make of the records."""
    for index, line in sorted(records.lines.items()):
        try:
            chats(line["calls"])
            trajectory_from_json(line)
        except (ValueError, LookupError, TypeError, ArithmeticError) as error:
            yield f"meta-episode {index}: it cannot be read as one ({type(error).__name__}: {error})"
            return
    try:
        if records.lines:
            summary_of(records.about["agent"]["name"], setting, records.trajectories())
    except (ValueError, LookupError, TypeError, ArithmeticError) as error:
        yield f"the run cannot be scored ({type(error).__name__}: {error})"


def _summary_problems(records: Records, setting: Setting) -> Iterator[str]:
    if not (records.folder / SUMMARY).exists() or not records.lines:
        return
    try:
        stored = read_json_inside(records.folder, SUMMARY)
        if not isinstance(stored, dict):
            raise ValueError("it must be a JSON object")
        # The baselines are scores of other policies, which have no records here. Only their form is checked.
        load(records.folder)
    except (OSError, ValueError, LookupError, TypeError) as error:
        yield f"{SUMMARY}: cannot be read ({error})"
        return
    summary = summary_of(records.about["agent"]["name"], setting, records.trajectories())
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
            root = Records(folder / run["folder"]).root()["root"]
            if run.get("root") not in (None, root):
                yield f"{SUITE}: the root of {run['folder']} is {run['root'][:12]}, and the records give {root[:12]}"
        if plan.get("root") is None:
            yield f"{SUITE}: it is not complete; resume it with mage eval … --suite … --resume"
        elif plan["root"] != digest_of([run.get("root") for run in plan["runs"]]):
            yield f"{SUITE}: its root does not match the roots of its runs"
    except (ValueError, OSError) as error:
        yield f"{SUITE}: cannot be read ({error})"
