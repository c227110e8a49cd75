"""`mage-bench validate`: whether the files of a run are whole and agree with each other."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.evaluation.suites.settings import Setting
from benchmarks.evaluation.summary import summary_of
from benchmarks.records.about import setting_of
from benchmarks.records.canonical import digest_of
from benchmarks.records.store import ROOT, RUN, SUITE, Records, differences, run_folders, short
from trainer.lines import plain

if TYPE_CHECKING:
    from jsonschema.protocols import Validator


@cache
def schema() -> dict[str, Any]:
    """The JSON Schema of run.json, of a line and of root.json."""
    read: dict[str, Any] = json.loads(files("benchmarks.records").joinpath("schema.json").read_text("utf-8"))
    return read


@cache
def validator(name: str) -> Validator:
    """What checks one definition of the schema. Raises ImportError with the remedy."""
    try:
        from jsonschema import Draft202012Validator
    except ModuleNotFoundError as error:
        raise ImportError(
            'mage-bench validate needs jsonschema. Install it with: pip install "mage-envs[records]"'
        ) from error
    told = schema()
    made: Validator = Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": told["$defs"]})
    return made


def problems(folder: Path) -> Iterator[str]:
    """What is wrong with a run, one line each; nothing for a run that is whole. Raises NoRun."""
    records = Records(folder)
    yield from map(str, records.problems)
    yield from _schema_problems("run", records.about, RUN)
    for index, line in sorted(records.lines.items()):
        yield from _schema_problems("line", line, f"meta-episode {index}")
    yield from _root_problems(records)
    try:
        setting = setting_of(records.about)
        told = differences(records.about["setting"], json.loads(json.dumps(setting.to_json())), "setting")
        for place, there, now in told:
            yield f"{RUN}: {place} is {json.dumps(there)}, and this version with these data makes {json.dumps(now)}"
        if setting.fingerprint != records.about["fingerprint"]:
            yield f"{RUN}: the fingerprint is {records.about['fingerprint'][:12]}, not {setting.fingerprint[:12]}"
    except (ValueError, LookupError, OSError, ImportError) as error:
        yield f"{RUN}: its setting cannot be made again ({error})"
        return
    yield from _task_problems(records, setting)
    if not records.problems:
        yield from _summary_problems(records, setting)


def _schema_problems(name: str, value: Any, where: str) -> Iterator[str]:
    for error in validator(name).iter_errors(value):
        yield f"{where}: {error.json_path} {error.message[:200]}"


def _root_problems(records: Records) -> Iterator[str]:
    try:
        told = json.loads((records.folder / ROOT).read_text("utf-8"))
    except (OSError, ValueError) as error:
        yield f"{ROOT}: cannot be read ({error})"
        return
    for place, there, now in differences(told, records.root()):
        yield f"{ROOT}: {place} is {json.dumps(there)}, and the records give {json.dumps(now)}"


def _task_problems(records: Records, setting: Setting) -> Iterator[str]:
    for index, line in sorted(records.lines.items()):
        task = setting.tasks[index]
        for name, value in line["task"].items():
            if value != vars(task)[name]:
                yield f"meta-episode {index}: its {name} is {value!r}, and the panel's {vars(task)[name]!r}"


def _summary_problems(records: Records, setting: Setting) -> Iterator[str]:
    path = records.folder / "summary.json"
    if not path.exists() or not records.lines:
        return
    try:
        told = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        yield f"summary.json: cannot be read ({error})"
        return
    summary = summary_of(records.about["agent"]["name"], setting, records.trajectories())
    made = json.loads(json.dumps(plain(summary.to_json())))
    made["floors"] = told.get("floors", [])  # of other policies, which have no records here
    for place, there, now in differences(told, _known(made, told)):
        if not (isinstance(there, float) and isinstance(now, float) and abs(there - now) < 1e-9):
            yield f"summary.json: {place} is {short(there)}, and the records give {short(now)}"


def _known(made: Any, told: Any) -> Any:
    """`made` without the keys that `told`, which an older version may have written, does not have."""
    if isinstance(made, dict) and isinstance(told, dict):
        return {key: _known(value, told[key]) for key, value in made.items() if key in told}
    if isinstance(made, list) and isinstance(told, list) and len(made) == len(told):
        return [_known(a, b) for a, b in zip(made, told, strict=True)]
    return made


def suite_problems(folder: Path) -> Iterator[str]:
    """What is wrong between the suite in a folder and its runs; nothing where there is none."""
    path = folder / SUITE
    if not path.exists():
        return
    try:
        plan = json.loads(path.read_text("utf-8"))
        for one in plan["runs"]:
            if not (folder / one["folder"] / RUN).exists():
                yield f"{SUITE}: there is no run {one['folder']}"
            elif "root" in one and one["root"] != (root := Records(folder / one["folder"]).root()["root"]):
                yield f"{SUITE}: the root of {one['folder']} is {one['root'][:12]}, and the records give {root[:12]}"
        if "root" not in plan:
            yield f"{SUITE}: not all of it was played; mage-bench suite … --resume goes on"
        elif plan["root"] != digest_of([one["root"] for one in plan["runs"]]):
            yield f"{SUITE}: its root is not that of its runs"
    except (ValueError, LookupError, TypeError) as error:
        yield f"{SUITE}: cannot be read ({error})"


# -- mage-bench validate ---------------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `mage-bench validate`."""
    parser.epilog = "Example: mage-bench validate runs/t1"
    parser.add_argument("runs", metavar="RUN", nargs="+", help="folders of runs or of a suite, from --out")


def run(arguments: argparse.Namespace) -> None:
    """Writes a line per problem to stdout, or that there is none; status 1 after any."""
    wrong = False
    for name in (str(folder) for given in arguments.runs for folder in run_folders(Path(given))):
        found = list(problems(Path(name)))
        wrong = wrong or bool(found)
        records = Records(Path(name))
        sys.stdout.write("".join(f"{name}: {problem}\n" for problem in found))
        if not found:
            root = records.root()["root"]
            sys.stdout.write(
                f"{name}: {len(records.lines)} of {records.planned} meta-episodes, root {root[:12]}: valid\n"
            )
    for folder in map(Path, arguments.runs):
        for problem in suite_problems(folder):
            wrong = True
            sys.stdout.write(f"{folder}: {problem}\n")
    if wrong:
        raise SystemExit(1)
