"""Leaderboards: validated runs of one setting as a table, or of suites as a page, with the checks of each run."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mage_envs.benchmarks.comparison.attest import Attestation, attestations_in
from mage_envs.benchmarks.comparison.paired_runs import rank_runs
from mage_envs.benchmarks.evaluation.run.summary import summary_of
from mage_envs.benchmarks.evaluation.scoring.estimates import Estimate
from mage_envs.benchmarks.evaluation.tables.markup import markdown
from mage_envs.benchmarks.evaluation.tables.summary_table import NOT_KNOWN, PROBLEM_COLUMNS, format_delimited
from mage_envs.benchmarks.records.about import setting_of
from mage_envs.benchmarks.records.record_store import Records, read_suite, reading, run_folders
from mage_envs.benchmarks.records.replay import replay
from mage_envs.benchmarks.records.validate import problems, suite_problems
from mage_envs.benchmarks.report.document import REPORT, static_page
from mage_envs.files.atomic import write_atomically
from mage_envs.text.styles import DEFAULT_STYLE
from mage_envs.text.visible import one_line

if TYPE_CHECKING:
    from mage_envs.benchmarks.scale.scale import ScaleScore

MOST_MB = 20
"""Maximum size of a submitted run in 10^6 bytes."""


def entry(folder: Path, sample: int, attested: Mapping[str, Attestation] | None = None) -> dict[str, Any]:
    """Return one run as JSON values.

    Args:
        folder: Folder of the run.
        sample: Number of meta-episodes to replay.
        attested: Statements of the verifier by the root of their run.

    Raises:
        ValueError: If the run is not valid, too large, or contradicted by its attestation.
    """
    if wrong := problems(folder):
        raise ValueError(f"{folder} is not valid: {wrong[0]}; mage verify {folder} prints all problems.")
    with reading(folder):
        return _entry(folder, sample, attested or {})


def _entry(folder: Path, sample: int, attested: Mapping[str, Attestation]) -> dict[str, Any]:
    # The report is made from the other files, so a submission does not need it.
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != REPORT]
    size = sum(path.stat().st_size for path in files) / 1e6
    if size > MOST_MB:
        raise ValueError(f"{folder} has {size:.1f} MB; a submission is a folder of at most {MOST_MB} MB.")
    records = Records(folder)
    setting = setting_of(records.about)
    lines = [line for _, line in sorted(records.lines.items())]
    # Evenly spread, so that the sample covers all parts of the panel.
    count = min(sample, len(lines))
    replayed = [lines[k * len(lines) // count] for k in range(count)]
    mismatches = replay(replayed, setting)
    if mismatches:
        raise ValueError(f"{folder} differs from its records when it is replayed: {mismatches[0].lines()[0]}")
    statement = attested.get(records.root()["root"])
    if statement is not None and not statement.agreed:
        raise ValueError(f"{folder} is contradicted by its attestation: {statement.text()}.")
    summary = summary_of(records.about["agent"]["name"], setting, records.trajectories())
    row = summary.overall
    measures = [episode.measure(summary.objective) for episode in row.episodes]
    return {
        "agent": summary.agent,
        "memory": setting.resolved["memory"],
        "setting": setting.name,
        "style": setting.resolved["style"],
        "own_rules": "rules" in setting.resolved["further"],
        "fingerprint": setting.fingerprint,
        "measure": "success" if summary.objective == "success" else f"{summary.unit} per hand",
        "episodes": [_interval(measure.estimate) for measure in measures],
        "pass_at": [_interval(estimate) for estimate in row.pass_at],
        "ceiling": measures[-1].ceiling,
        "meta_episodes": len(lines),
        "planned": records.planned,
        "failed": len(records.failed),
        "replies": row.reply_problems(),
        "warnings": row.warnings(),
        "root": records.root()["root"],
        "verified": {
            "digests": len(lines),
            "replayed": count,
            "ceilings": all(measure.ceiling is not None for measure in measures),
            "attested": None if statement is None else asdict(statement),
        },
    }


def _interval(estimate: Estimate) -> list[float | None]:
    return [estimate.mean, estimate.low, estimate.high]


def table(entries: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return the header and one row per run, the best last episode first. `rank` is an interval of ranks."""
    longest = max(len(entry["episodes"]) for entry in entries)
    head = ["rank", "agent", "memory", *(f"episode {k}" for k in range(1, longest + 1)), f"pass@{longest}", "ceiling"]
    rows = [[*head, "n", "failed", *PROBLEM_COLUMNS, "verified"]]
    for entry in sorted(entries, key=lambda e: -e["episodes"][-1][0]):
        checked = entry["verified"]
        verification = f"digests, {checked['replayed']} replayed" + (", ceilings" if checked["ceilings"] else "")
        if (statement := checked["attested"]) is not None:
            verification += f", {statement['meta_episodes']} {statement['method']}"
        cells = [_cell(*interval) for interval in entry["episodes"]]
        ceiling = NOT_KNOWN if entry["ceiling"] is None else f"{entry['ceiling']:.3f}"
        progress = f"{entry['meta_episodes']}/{entry['planned']}"
        best, worst = entry["rank"]
        rank = f"{best}" if best == worst else f"{best}-{worst}"
        row = [
            rank,
            entry["agent"],
            str(entry["memory"]),
            *cells,
            *[NOT_KNOWN] * (longest - len(cells)),
            _cell(*entry["pass_at"][-1]),
        ]
        problems = [f"{share:.1%}" for share in entry["replies"].values()]
        rows.append([*row, ceiling, progress, str(entry["failed"]), *problems, verification])
    return rows


def add_ranks(entries: Sequence[dict[str, Any]], folders: Sequence[Path]) -> list[dict[str, Any]]:
    """Return entries of one setting with their intervals of ranks."""
    return [entry | {"rank": list(rank)} for entry, rank in zip(entries, rank_runs(folders), strict=True)]


def groups(runs: Sequence[str], sample: int, attested: Mapping[str, Attestation]) -> list[dict[str, Any]]:
    """Return the tables of a page: one per setting, with the runs that measure it.

    Args:
        runs: Folders of runs or of suites.
        sample: Number of meta-episodes to replay per run.
        attested: Statements of the verifier by the root of their run.

    Raises:
        ValueError: As `entry`.
    """
    by_setting: dict[str, list[tuple[dict[str, Any], Path]]] = {}
    for folder in (folder for name in runs for folder in run_folders(Path(name))):
        run_entry = entry(folder, sample, attested)
        by_setting.setdefault(run_entry["fingerprint"], []).append((run_entry, folder))
    tables = []
    for print_, members in by_setting.items():
        entries = add_ranks([run_entry for run_entry, _ in members], [folder for _, folder in members])
        tables.append(
            {
                "title": _title(entries[0]),
                "measure": entries[0]["measure"],
                "fingerprint": print_,
                "rows": table(entries),
                "warnings": [
                    f"{run_entry['agent']}: {text}" for run_entry in entries for text in run_entry["warnings"]
                ],
                "roots": [f"{run_entry['root']}  {run_entry['agent']}" for run_entry in entries],
            }
        )
    return tables


class Bar(NamedTuple):
    """A level and its interval as a bar of `BAR` units, which begins at level 0."""

    start: float
    length: float
    low: float
    high: float
    positive: bool


BAR, LEAST_SHOWN, MOST_SHOWN = 120.0, -1.0, 1.5
"""Width of a bar, and the levels at its ends."""
ZERO = BAR * -LEAST_SHOWN / (MOST_SHOWN - LEAST_SHOWN)
"""Place of level 0 in a bar."""


def bar_of(level: ScaleScore | None) -> Bar | None:
    """Return the bar of a level, or None for an agent without one. Ends beyond those of the axis are cut."""
    if level is None or level.unmet:
        return None
    offsets = [
        BAR * (min(max(value, LEAST_SHOWN), MOST_SHOWN) - LEAST_SHOWN) / (MOST_SHOWN - LEAST_SHOWN)
        for value in (
            (level.worst + level.best) / 2 if level.failed else level.mean,
            level.mean if level.floor is None else level.floor,
            level.mean if level.ceiling is None else level.ceiling,
        )
    ]
    middle, low, high = (round(offset, 1) for offset in offsets)
    return Bar(
        start=min(middle, ZERO), length=round(abs(middle - ZERO), 1), low=low, high=high, positive=middle >= ZERO
    )


def adaptation_tables(folders: Sequence[Path], attested: Mapping[str, Attestation]) -> list[dict[str, Any]]:
    """Return one table for each suite `adapt` in the folders that hold one, the best agent first.

    Raises ValueError if a suite is not valid, not complete, or not of its cells.
    """
    # Imported here, because other pages need no exact values.
    from mage_envs.benchmarks.scale.adapt_table import AdaptResult
    from mage_envs.benchmarks.scale.stored_suites import StoredSuite, read_stored_suite
    from mage_envs.benchmarks.scale.suite_comparison import rank_suites

    members: dict[str, list[tuple[StoredSuite, str]]] = {}
    for folder in folders:
        suite = str((read_suite(folder) or {}).get("suite", ""))
        if suite.startswith("adapt"):
            if wrong := next(suite_problems(folder), None):
                raise ValueError(f"{folder} is not valid: {wrong}")
            with reading(folder):
                members.setdefault(suite, []).append((read_stored_suite(folder), count_attested(folder, attested)))
    tables = []
    for suite, stored in members.items():
        ranks = rank_suites([stored_suite for stored_suite, _ in stored])
        rows = []
        for (stored_suite, statements), (best, worst) in zip(stored, ranks, strict=True):
            result = AdaptResult.of(stored_suite)
            level = result.level()
            rank = f"{best}" if best == worst else f"{best}-{worst}"
            has_mean = level is not None and not level.unmet
            key = level.worst if level is not None and has_mean else -math.inf
            rows.append(((best, -key), {"cells": [rank, *result.row(), statements], "bar": bar_of(level)}))
        rows.sort(key=lambda row: row[0])
        tables.append(
            {"suite": suite, "header": ADAPT_HEADER, "rows": [row for _, row in rows], "zero": ZERO, "width": BAR}
        )
    return tables


ADAPT_HEADER = ("rank", "agent", "level", "median", "own memory", "other's memory", "verdict", "attested")


def count_attested(folder: Path, attested: Mapping[str, Attestation]) -> str:
    """Return how many runs of a suite the verifier executed or challenged: `12 of 12`, or `no`."""
    roots = [Records(run).root()["root"] for run in run_folders(folder)]
    count = sum(root in attested for root in roots)
    return f"{count} of {len(roots)}" if count else "no"


def _title(entry: Mapping[str, Any]) -> str:
    """Return the name of a setting with what changes its prompts."""
    style = "" if entry["style"] == DEFAULT_STYLE else f", style {entry['style']}"
    return f"{entry['setting']}{style}{', rules with a description of the pool' if entry['own_rules'] else ''}"


def _cell(mean: float, low: float | None, high: float | None) -> str:
    return f"{mean:.3f}" if low is None or high is None else f"{mean:.3f} [{low:.3f}, {high:.3f}]"


def write_page(page: Path, runs: Sequence[str], sample: int, attested: Path | None) -> str:
    """Write a leaderboard, and return a line that says what it holds.

    Args:
        page: File to write. An HTML file has one table per setting and per suite. A file that ends in `.md`, `.csv` or
            `.json` is the table of runs of one setting.
        runs: Folders of runs; for an HTML file also of suites.
        sample: Meta-episodes to replay per run.
        attested: Folder of the verifier's statements, or None.

    Raises:
        ValueError: If a run is not valid, if the runs of a table have different settings, or for another file type.
    """
    statements = {} if attested is None else attestations_in(attested)
    if page.suffix == ".html":
        # First, because it restores the memories that the runs with another's memory need.
        adapted = adaptation_tables([Path(name) for name in runs], statements)
        tables = groups(runs, sample, statements)
        write_atomically(page, static_page("leaderboard.html", title=page.stem, groups=tables, adapted=adapted))
        return f"{page}: {sum(len(group['roots']) for group in tables)} runs in {len(tables)} settings\n"
    if page.suffix not in _TABLES:
        raise ValueError(f"--page {page} must end in .html, {', '.join(list(_TABLES)[:-1])} or {list(_TABLES)[-1]}.")
    entries = [entry(Path(name), sample, statements) for name in runs]
    prints = {name: row["fingerprint"][:12] for name, row in zip(runs, entries, strict=True)}
    if len(set(prints.values())) > 1:
        prints_text = ", ".join(f"{name} {print_}" for name, print_ in prints.items())
        raise ValueError(f"These runs measure different settings and are not compared (fingerprints: {prints_text}).")
    write_atomically(page, _TABLES[page.suffix](add_ranks(entries, [Path(name) for name in runs])))
    return f"{page}: {len(entries)} runs of one setting\n"


def _markdown_page(entries: Sequence[dict[str, Any]]) -> str:
    first_entry = entries[0]
    title = (
        f"{one_line(first_entry['setting'])}, {first_entry['measure']}, fingerprint {first_entry['fingerprint'][:12]}"
    )
    warnings = [f"\n{one_line(entry['agent'])}: {text}\n" for entry in entries for text in entry["warnings"]]
    return f"{title}\n\n{markdown(table(entries))}{''.join(warnings)}"


_TABLES: Mapping[str, Callable[[Sequence[dict[str, Any]]], str]] = {
    ".md": _markdown_page,
    ".csv": lambda entries: format_delimited(table(entries)),
    ".json": lambda entries: json.dumps(entries, indent=2) + "\n",
}
"""Ending of a file's name to the function that writes the table."""
