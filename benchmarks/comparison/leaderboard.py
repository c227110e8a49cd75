"""Leaderboards: validated runs of one setting as a table, or of suites as a page, with the checks of each run."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from mage_envs.benchmarks.canonical import digest_of
from mage_envs.benchmarks.comparison.attest import Attestation, attestations_in
from mage_envs.benchmarks.comparison.paired_runs import rank_runs
from mage_envs.benchmarks.evaluation.run.summary import summary_of
from mage_envs.benchmarks.evaluation.scoring.call_stats import REPLY_PROBLEMS
from mage_envs.benchmarks.evaluation.scoring.estimates import Estimate
from mage_envs.benchmarks.evaluation.suites.setting import DISPLAY
from mage_envs.benchmarks.evaluation.tables.markup import markdown
from mage_envs.benchmarks.evaluation.tables.summary_table import NOT_KNOWN, format_delimited
from mage_envs.benchmarks.records.about import identity_fields, setting_of
from mage_envs.benchmarks.records.control_runs import control_of, runs_with_controls
from mage_envs.benchmarks.records.record_store import Records, read_suite, reading, run_folders
from mage_envs.benchmarks.records.replay import replay_run
from mage_envs.benchmarks.records.validate import problems, suite_problems
from mage_envs.benchmarks.report.document import REPORT, static_page
from mage_envs.benchmarks.scale.adapt_table import AdaptResult
from mage_envs.benchmarks.scale.judged_play import JudgedAgent, judge_folder
from mage_envs.benchmarks.scale.scale import ScaleScore
from mage_envs.benchmarks.scale.scale_text import score_text
from mage_envs.benchmarks.scale.stored_suites import StoredSuite, read_stored_suite
from mage_envs.benchmarks.scale.suite_comparison import rank_by_level, rank_suites
from mage_envs.files.atomic import write_atomically
from mage_envs.text.visible import one_line
from mage_envs.wrappers import MetaEpisode

MOST_MB = 20
"""Maximum size of a submitted run in 10^6 bytes."""


class LeaderboardEntry(NamedTuple):
    """One run of a leaderboard."""

    folder: Path
    values: dict[str, Any]
    """What the run's row shows, as JSON values."""
    judged: JudgedAgent | None
    """The agent with its level and adaptation, or None if decisions cannot be judged exactly."""


def entry(folder: Path, sample: int, attested: Mapping[str, Attestation] | None = None) -> LeaderboardEntry:
    """Return one run, whose files and whose controls' files were checked.

    Args:
        sample: Number of meta-episodes to replay.
        attested: Statements of the verifier by the root of their run.

    Raises:
        ValueError: If the run is not valid, too large, or contradicted by its attestation.
    """
    if wrong := problems(folder):
        raise ValueError(f"{folder} is not valid: {wrong[0]}; mage verify {folder} prints all problems.")
    for run in runs_with_controls(folder):
        replayed = replay_run(run, sample)
        if not replayed.agrees:
            raise ValueError(
                f"{run} differs from its records when it is replayed: {replayed.differences[0].lines()[0]}"
            )
    with reading(folder):
        values = _entry(folder, sample, attested or {})
    judged = judge_folder(folder)
    if judged is not None:
        values["adaptation"] = judged.to_json()
    return LeaderboardEntry(folder, values, judged)


def _entry(folder: Path, sample: int, attested: Mapping[str, Attestation]) -> dict[str, Any]:
    # The report is made from the other files, so a submission does not need it.
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != REPORT]
    size = sum(path.stat().st_size for path in files) / 1e6
    if size > MOST_MB:
        raise ValueError(f"{folder} has {size:.1f} MB; a submission is a folder of at most {MOST_MB} MB.")
    records = Records(folder)
    setting = setting_of(records.about)
    statement = attested.get(records.root()["root"])
    if statement is not None and not statement.agreed:
        raise ValueError(f"{folder} is contradicted by its attestation: {statement.text()}.")
    summary = summary_of(records.about["agent"]["name"], setting, records.trajectories())
    row = summary.overall
    measures = [episode.measure(summary.objective) for episode in row.episodes]
    return {
        "agent": summary.agent,
        **{option: setting.resolved[option] for option in DISPLAY},
        "setting": setting.name,
        "own_rules": "rules" in setting.resolved["further"],
        # Agents choose the options of `DISPLAY` for themselves, so that they share a table, unless they play a control.
        "fingerprint": digest_of([identity_fields(records.about), control_of(str(setting.resolved["memory"]))]),
        "measure": "success" if summary.objective == "success" else f"{summary.unit} per hand",
        "episodes": [_interval(measure.estimate) for measure in measures],
        "pass_at": [_interval(estimate) for estimate in row.pass_at],
        "ceiling": measures[-1].ceiling,
        "meta_episodes": len(records.lines),
        "planned": records.planned,
        "failed": len(records.failed),
        "replies": row.reply_problems(),
        "warnings": row.warnings(),
        "root": records.root()["root"],
        "verified": {
            "digests": len(records.lines),
            "replayed": min(sample, len(records.lines)),
            "ceilings": all(measure.ceiling is not None for measure in measures),
            "attested": None if statement is None else asdict(statement),
        },
    }


def _interval(estimate: Estimate) -> list[float | None]:
    return [estimate.mean, estimate.low, estimate.high]


def table(entries: Sequence[LeaderboardEntry]) -> list[list[str]]:
    """Return the header and one row per run in the order of the ranks, which are intervals.

    Runs whose decisions can be judged exactly show level, adaptation and verdict in place of pass@k. A kind of
    unusable reply has a column if a run has any.
    """
    longest = max(len(entry.values["episodes"]) for entry in entries)
    is_judged = any(entry.judged is not None for entry in entries)
    seen_problems = [name for name in REPLY_PROBLEMS if any(entry.values["replies"][name] for entry in entries)]
    head = ["rank", "agent", "memory", *(SCALE_COLUMNS if is_judged else ())]
    head += [*(f"episode {k}" for k in range(1, longest + 1)), *([] if is_judged else [f"pass@{longest}"]), "ceiling"]
    rows = [[*head, "n", "failed", *(name.replace("_", " ") for name in seen_problems), "verified"]]
    ranks = rank_entries(entries)
    order = sorted(range(len(entries)), key=lambda i: (ranks[i][0], -_headline(entries[i])))
    for (best, worst), run_entry in ((ranks[i], entries[i]) for i in order):
        values = run_entry.values
        checked = values["verified"]
        verification = f"digests, {checked['replayed']} replayed" + (", ceilings" if checked["ceilings"] else "")
        if (statement := checked["attested"]) is not None:
            verification += f", {statement['meta_episodes']} {statement['method']}"
        cells = [_cell(*interval) for interval in values["episodes"]]
        row = [
            f"{best}" if best == worst else f"{best}-{worst}",
            values["agent"],
            _prompts_cell(values),
            *(_scale_cells(run_entry.judged) if is_judged else ()),
            *cells,
            *[NOT_KNOWN] * (longest - len(cells)),
            *([] if is_judged else [_cell(*values["pass_at"][-1])]),
            NOT_KNOWN if values["ceiling"] is None else f"{values['ceiling']:.3f}",
            f"{values['meta_episodes']}/{values['planned']}",
            str(values["failed"]),
        ]
        rows.append([*row, *(f"{values['replies'][name]:.1%}" for name in seen_problems), verification])
    return rows


def _prompts_cell(values: Mapping[str, Any]) -> str:
    """Return the memory of a run, with its context and style if they are not the defaults."""
    defaults = inspect.signature(MetaEpisode).parameters
    chosen = [
        str(values[option]) for option in DISPLAY if option != "memory" and values[option] != defaults[option].default
    ]
    return ", ".join([str(values["memory"]), *chosen])


SCALE_COLUMNS = ("level", "own memory", "other's memory", "verdict")


def _scale_cells(judged: JudgedAgent | None) -> list[str]:
    if judged is None:
        return [NOT_KNOWN] * len(SCALE_COLUMNS)
    row = judged.row()
    scores = [score_text(score) for score in (row.level, row.own_score, row.other_score)]
    return [*scores, judged.verdict or "no verdict"]


def _headline(run_entry: LeaderboardEntry) -> float:
    """Return the level of a run, or its value in the last episode."""
    level = None if run_entry.judged is None else run_entry.judged.level
    return float(run_entry.values["episodes"][-1][0]) if level is None else level.worst


def rank_entries(entries: Sequence[LeaderboardEntry]) -> list[tuple[int, int]]:
    """Return the interval of ranks of each run of one setting: by levels if all have one, else by the last episode."""
    judged = [entry.judged for entry in entries if entry.judged is not None]
    if len(judged) == len(entries):
        return rank_by_level([agent.runs[""] for agent in judged])
    return rank_runs([entry.folder for entry in entries])


def groups(runs: Sequence[str], sample: int, attested: Mapping[str, Attestation]) -> list[dict[str, Any]]:
    """Return the tables of a page: one per setting, with the runs that measure it.

    Args:
        runs: Folders of runs or of suites.
        sample: Number of meta-episodes to replay per run.
        attested: Statements of the verifier by the root of their run.

    Raises:
        ValueError: As `entry`.
    """
    by_setting: dict[str, list[LeaderboardEntry]] = {}
    for folder in (folder for name in runs for folder in run_folders(Path(name))):
        run_entry = entry(folder, sample, attested)
        by_setting.setdefault(run_entry.values["fingerprint"], []).append(run_entry)
    tables = []
    for print_, entries in by_setting.items():
        members = [run_entry.values for run_entry in entries]
        tables.append(
            {
                "title": _title(members[0]),
                "measure": members[0]["measure"],
                "fingerprint": print_,
                "rows": table(entries),
                "warnings": [f"{member['agent']}: {text}" for member in members for text in member["warnings"]],
                "roots": [f"{member['root']}  {member['agent']}" for member in members],
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
    """Return the name of a setting with what changes its rules."""
    return f"{entry['setting']}{', rules with a description of the pool' if entry['own_rules'] else ''}"


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
        counts = (sum(len(group["roots"]) for group in tables), len(tables))
        return "{}: {} run{} in {} setting{}\n".format(page, *(part for n in counts for part in (n, "s" * (n != 1))))
    if page.suffix not in _TABLES:
        raise ValueError(f"--page {page} must end in .html, {', '.join(list(_TABLES)[:-1])} or {list(_TABLES)[-1]}.")
    entries = [entry(Path(name), sample, statements) for name in runs]
    prints = {name: row.values["fingerprint"][:12] for name, row in zip(runs, entries, strict=True)}
    if len(set(prints.values())) > 1:
        prints_text = ", ".join(f"{name} {print_}" for name, print_ in prints.items())
        raise ValueError(f"These runs measure different settings and are not compared (fingerprints: {prints_text}).")
    write_atomically(page, _TABLES[page.suffix](entries))
    return f"{page}: {len(entries)} runs of one setting\n"


def _markdown_page(entries: Sequence[LeaderboardEntry]) -> str:
    members = [run_entry.values for run_entry in entries]
    first_member = members[0]
    title = f"{one_line(first_member['setting'])}, {first_member['measure']}, fingerprint "
    warnings = [f"\n{one_line(member['agent'])}: {text}\n" for member in members for text in member["warnings"]]
    return f"{title}{first_member['fingerprint'][:12]}\n\n{markdown(table(entries))}{''.join(warnings)}"


def _json_page(entries: Sequence[LeaderboardEntry]) -> str:
    ranks = rank_entries(entries)
    rows = [run_entry.values | {"rank": list(rank)} for run_entry, rank in zip(entries, ranks, strict=True)]
    return json.dumps(rows, indent=2) + "\n"


_TABLES: Mapping[str, Callable[[Sequence[LeaderboardEntry]], str]] = {
    ".md": _markdown_page,
    ".csv": lambda entries: format_delimited(table(entries)),
    ".json": _json_page,
}
"""Ending of a file's name to the function that writes the table."""
