"""`mage leaderboard`: a table of validated runs of one setting, with the checks that each run passed."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from benchmarks.evaluation.run.summary import summary_of
from benchmarks.evaluation.scoring.estimates import Estimate
from benchmarks.evaluation.tables.comparison import rank_intervals
from benchmarks.evaluation.tables.markup import markdown
from benchmarks.evaluation.tables.summary_table import NOT_KNOWN, PROBLEM_COLUMNS, delimited
from benchmarks.records.about import setting_of
from benchmarks.records.record_store import Records, reading
from benchmarks.records.replay import replay
from benchmarks.records.validate import problems
from benchmarks.report.document import REPORT
from mage_envs.text.visible import one_line

MOST_MB = 20
"""Maximum size of a submitted run in 10^6 bytes."""


def entry(folder: Path, sample: int) -> dict[str, Any]:
    """Return one run as JSON values. Raises ValueError if it is not valid, or too large."""
    if wrong := problems(folder):
        raise ValueError(f"{folder} is not valid: {wrong[0]}; mage validate {folder} prints all problems.")
    with reading(folder):
        return _entry(folder, sample)


def _entry(folder: Path, sample: int) -> dict[str, Any]:
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
    replayed = [lines[place * len(lines) // count] for place in range(count)]
    found = replay(replayed, setting)
    if found:
        raise ValueError(f"{folder} differs from its records when it is replayed: {found[0].lines()[0]}")
    summary = summary_of(records.about["agent"]["name"], setting, records.trajectories())
    row = summary.overall
    measures = [episode.measure(summary.objective) for episode in row.episodes]
    return {
        "agent": summary.agent,
        "memory": setting.resolved["memory"],
        "setting": setting.name,
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
        },
    }


def _interval(estimate: Estimate) -> list[float | None]:
    return [estimate.mean, estimate.low, estimate.high]


def table(entries: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return the header and one row per run, the best last episode first. `rank` is an interval of ranks."""
    last = max(len(one["episodes"]) for one in entries)
    head = ["rank", "agent", "memory", *(f"episode {k}" for k in range(1, last + 1)), f"pass@{last}", "ceiling"]
    found = [[*head, "n", "failed", *PROBLEM_COLUMNS, "verified"]]
    for one in sorted(entries, key=lambda one: -one["episodes"][-1][0]):
        checked = one["verified"]
        told = f"digests, replay of {checked['replayed']}" + (", ceilings" if checked["ceilings"] else "")
        cells = [_cell(*interval) for interval in one["episodes"]]
        ceiling = NOT_KNOWN if one["ceiling"] is None else f"{one['ceiling']:.3f}"
        played = f"{one['meta_episodes']}/{one['planned']}"
        best, worst = one["rank"]
        rank = f"{best}" if best == worst else f"{best}-{worst}"
        row = [
            rank,
            one["agent"],
            str(one["memory"]),
            *cells,
            *[NOT_KNOWN] * (last - len(cells)),
            _cell(*one["pass_at"][-1]),
        ]
        problems = [f"{share:.1%}" for share in one["replies"].values()]
        found.append([*row, ceiling, played, str(one["failed"]), *problems, told])
    return found


def _cell(mean: float, low: float | None, high: float | None) -> str:
    return f"{mean:.3f}" if low is None or high is None else f"{mean:.3f} [{low:.3f}, {high:.3f}]"


def command(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="Folders of runs at one setting")],
    table_format: Annotated[
        Literal["markdown", "csv", "json"], typer.Option("--format", help="Format of the table (default: markdown)")
    ] = "markdown",
    sample: Annotated[int, typer.Option(metavar="N", min=1, help="Meta-episodes to replay per run (default: 32)")] = 32,
) -> None:
    """Compare validated runs of one setting in a table.

    Example: mage leaderboard runs/t1/kuhn-k10-paper/react --format csv
    """
    entries = [entry(Path(name), sample) for name in runs]
    prints = {name: one["fingerprint"][:12] for name, one in zip(runs, entries, strict=True)}
    if len(set(prints.values())) > 1:
        told = ", ".join(f"{name} {print_}" for name, print_ in prints.items())
        raise ValueError(f"These runs measure different settings and are not compared (fingerprints: {told}).")
    ranks = rank_intervals([Path(name) for name in runs])
    entries = [one | {"rank": list(rank)} for one, rank in zip(entries, ranks, strict=True)]
    if table_format == "json":
        sys.stdout.write(json.dumps(entries, indent=2) + "\n")
        return
    rows = table(entries)
    if table_format == "csv":
        sys.stdout.write(delimited(rows))
        return
    one = entries[0]
    title = f"{one_line(one['setting'])}, {one['measure']}, fingerprint {one['fingerprint'][:12]}"
    sys.stdout.write(f"{title}\n\n{markdown(rows)}")
    for one in entries:
        sys.stdout.write("".join(f"\n{one_line(one['agent'])}: {text}\n" for text in one["warnings"]))
