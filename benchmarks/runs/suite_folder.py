"""The folder of a suite: its plan, its runs, and tables computed from them.

F/suite.json                 suite, size, rows, and the roots of all runs after they were played
F/PANEL/ROW/                 a run, as `mage_envs.benchmarks.suites.planning` describes it
F/table.txt, F/table.tsv     tables computed from the runs, as is F/report.html
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from mage_envs.benchmarks.canonical import digest_of
from mage_envs.benchmarks.evaluation.run.dry_run import dry_run as expect
from mage_envs.benchmarks.evaluation.run.options import PlayOptions
from mage_envs.benchmarks.evaluation.run.preflight import Price
from mage_envs.benchmarks.evaluation.scoring.scores import score_of
from mage_envs.benchmarks.evaluation.suites.paper import find_reported_panel
from mage_envs.benchmarks.evaluation.suites.rows import SuiteRow
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.evaluation.suites.suite_table import SuiteCell
from mage_envs.benchmarks.evaluation.tables import summary_table
from mage_envs.benchmarks.records.identity import OtherRun
from mage_envs.benchmarks.records.record_store import ROOT, RUN, SUITE, read_suite
from mage_envs.benchmarks.runs.measuring import ending, measure
from mage_envs.benchmarks.suites.planning import PlannedRun
from mage_envs.files.atomic import write_json
from mage_envs.files.bounded import read_json_inside
from mage_envs.files.locking import LOCK
from mage_envs.opponents.registry import portable_spec
from mage_envs.text.visible import one_line


class Expected(NamedTuple):
    """Expected size of several runs: sums of means, without an interval."""

    calls: float
    prompt_tokens: float
    reply_tokens: float
    price: float | None


def estimate_size(cells: Sequence[PlannedRun], price: Price | None, write: Callable[[str], object]) -> Expected | None:
    """Return the expected size of runs from random play, without a call of a model; None if no agent is a model.

    Args:
        price: Price of tokens, or None.
        write: Function that receives one line per run.
    """
    totals = []
    for cell in cells:
        expected, count = expect(cell.agent, cell.setting, price), len(cell.setting.tasks)
        name = f"{cell.folder}, {one_line(cell.agent.name)}"
        if expected is None:
            write(f"{name}: {count:,} meta-episodes, no model\n")
            continue
        write(f"{name}: {expected.text(count, 1)}\n")
        parts = (expected.calls, expected.prompt_tokens, expected.reply_tokens, expected.price)
        totals.append([count * part.mean if part else 0.0 for part in parts])
    if not totals:
        return None
    calls, prompts, replies, cost = map(sum, zip(*totals, strict=True))
    return Expected(calls, prompts, replies, None if price is None else cost)


def play_runs(cells: Sequence[PlannedRun], out: Path, options: PlayOptions) -> tuple[list[SuiteCell], list[int]]:
    """Play all runs in folders below `out`. Return their scores and exit statuses."""
    suite_cells, statuses = [], []
    for number, cell in enumerate(cells, start=1):
        sys.stderr.write(f"[{number}/{len(cells)}] {cell.folder}\n")
        folder = out / cell.folder
        setting = cell.setting_in(out)
        measured = measure(replace(options, out=folder), cell.agent, setting, cell.spec)
        summary_table.save(folder, measured.summary, figure=False)
        statuses.append(ending(setting, measured))
        if measured.summary.overall.meta_episodes:
            score = summary_table.number(score_of(measured.summary))
            sys.stderr.write(f"[{number}/{len(cells)}] {cell.folder}: {score}\n")
        suite_cells.append(
            SuiteCell(
                panel=cell.panel,
                protocol=cell.protocol,
                episodes=cell.episodes,
                row=cell.row.name,
                summary=measured.summary,
                note=cell.note,
                reported=find_reported(setting),
            )
        )
    return suite_cells, statuses


def find_reported(setting: Setting) -> str | None:
    """Return the panel whose reported scores may be shown next to a run of the setting, or None."""
    options = setting.resolved
    return find_reported_panel(setting.name, setting.fingerprint, options["memory"], options["context"])


def plan_of(suite: str, quick: bool, rows: Sequence[SuiteRow], cells: Sequence[PlannedRun]) -> dict[str, Any]:
    """Return the contents of suite.json before anything is played."""
    return {
        "schema": 1,
        "suite": suite,
        "quick": quick,
        "rows": [_portable(asdict(row)) for row in rows],
        "runs": [cell.to_json() for cell in cells],
    }


def _portable(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row without the addresses of models, so that a suite resumes with other servers."""
    agent = row["agent"]
    portable_agent = (
        portable_spec(agent) if isinstance(agent, str) else {key: portable_spec(spec) for key, spec in agent.items()}
    )
    return {**row, "agent": portable_agent}


def begin(out: Path, plan: Mapping[str, Any], resume: bool) -> None:
    """Write the plan, or compare it with an existing one. Raise OtherRun if the folder holds anything else."""
    path = out / SUITE
    stored = read_suite(out)
    # The round trip through JSON turns tuples into lists, as they are in the stored plan.
    differing_keys = [
        key
        for key, value in json.loads(json.dumps(plan)).items()
        if stored is not None and _strip_roots(stored).get(key) != value
    ]
    if differing_keys and next(out.rglob(RUN), None) is None:
        # A plan without any run can be replaced.
        path.unlink()
    if path.exists():
        if not resume and next(out.rglob(RUN), None) is not None:
            raise OtherRun(f"{out} already holds a suite. Continue it with --resume, or use another folder.")
        if differing_keys:
            raise OtherRun(f"{out} holds another suite: {', '.join(differing_keys)} differ. Use another folder.")
    elif {*out.iterdir()} - {out / LOCK}:
        raise OtherRun(f"{out} is not empty and holds no suite. Use another folder.")
    else:
        write_json(path, plan)


def _strip_roots(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan without the roots of its runs."""
    runs = [{key: run[key] for key in ("folder", "fingerprint")} for run in plan["runs"]]
    return {key: value for key, value in plan.items() if key != "root"} | {"runs": runs}


def finish(out: Path, plan: Mapping[str, Any], cells: Sequence[PlannedRun]) -> None:
    """Add the roots of the runs, and the digest of all roots, to the plan."""
    roots = [read_json_inside(out / cell.folder, ROOT)["root"] for cell in cells]
    runs = [{**run, "root": root} for run, root in zip(plan["runs"], roots, strict=True)]
    write_json(out / SUITE, {**plan, "runs": runs, "root": digest_of(roots)})
