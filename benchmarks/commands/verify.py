"""`mage verify`: checks the files of runs, executes them again, or plays as their verifier."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from mage_envs.benchmarks.records.control_runs import runs_with_controls
from mage_envs.benchmarks.records.record_store import run_folders
from mage_envs.benchmarks.records.replay import replay_run
from mage_envs.benchmarks.records.validate import check_run, suite_problems
from mage_envs.cli.commands import JsonOption, print_json
from mage_envs.files.atomic import write_json
from mage_envs.text.visible import one_line


def command(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="Folders of runs or of suites, from --out")],
    replay: Annotated[
        bool, typer.Option(help="Execute the recorded replies again: every prompt, reward and outcome must be equal")
    ] = False,
    challenge: Annotated[
        bool,
        typer.Option(help="Let the agent play: policies and saved models again, models behind endpoints on new seeds"),
    ] = False,
    agent: Annotated[
        str | None,
        typer.Option(metavar="AGENT", help="Your copy of a challenged model: model:FOLDER, hf:NAME or llm:MODEL@URL"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder of the challenges' statements for mage compare --page")
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Meta-episodes per run to execute again, evenly spread (default: all)"),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(metavar="N", min=2, help="New tasks of a challenge per opponent and seat (default: 8)"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check the files of runs, execute them again, or challenge their agent.

    The exit status is 1 if anything differs.

    Example: mage verify runs/t1 --replay
    """
    if replay and challenge:
        raise ValueError("--replay and --challenge are two checks. Choose one.")
    if not challenge and (agent, out, rows) != (None, None, None):
        raise ValueError("--agent, --out and --rows apply to --challenge. Add it, or remove them.")
    if not (replay or challenge) and sample is not None:
        raise ValueError("--sample applies to --replay and --challenge. Add one of them, or remove --sample.")
    if challenge:
        results = _challenges(runs, agent, out, sample, rows)
    else:
        results = _replays(runs, sample) if replay else _validations(runs)
    values, agreed = [], True
    for text, value, is_sound in results:
        values.append(value)
        agreed = agreed and is_sound
        if not as_json:
            sys.stdout.write(text)
    if as_json:
        print_json(values)
    if not agreed:
        raise SystemExit(1)


Result = tuple[str, dict[str, Any], bool]
"""Text of a run's check, its values for `--json`, and True if nothing differs."""


def _validations(runs: Sequence[str]) -> Iterator[Result]:
    """Yield the problems of the files of each run, then those of each suite."""
    for folder in (folder for name in runs for folder in run_folders(Path(name))):
        checked = check_run(folder)
        wrong = [one_line(problem) for problem in checked.problems]
        value: dict[str, Any] = {"folder": str(folder), "problems": wrong}
        if wrong:
            yield _lines(folder, wrong), value, False
            continue
        _, root, count, planned = checked
        text = f"{folder}: {count} of {planned} meta-episodes, root {root[:12]}: valid\n"
        yield text, value | {"meta_episodes": count, "planned": planned, "root": root}, True
    for folder in map(Path, runs):
        if wrong := [one_line(problem) for problem in suite_problems(folder)]:
            yield _lines(folder, wrong), {"folder": str(folder), "problems": wrong}, False


def _lines(folder: Path, wrong: Sequence[str]) -> str:
    return "".join(f"{folder}: {problem}\n" for problem in wrong)


def _replays(runs: Sequence[str], sample: int | None) -> Iterator[Result]:
    for folder in (folder for name in runs for folder in run_folders(Path(name))):
        for run in runs_with_controls(folder):
            result = replay_run(run, sample)
            yield result.text(), asdict(result), result.agrees


def _challenges(
    runs: Sequence[str], agent: str | None, out: Path | None, sample: int | None, rows: int | None
) -> Iterator[Result]:
    # Imported here, because the other checks play nothing.
    from mage_envs.benchmarks.comparison.attest import ROWS, attest, runs_to_attest

    for folder in (folder for name in runs for folder in runs_to_attest(Path(name))):
        result = attest(folder, agent, out=out, sample=sample, rows=rows or ROWS)
        if out is not None:
            write_json(out / f"{result.root}.json", asdict(result), sort_keys=True)
        yield result.text() + "\n", asdict(result), result.agreed
