"""The report as one HTML file: its parts, its script and style, and the compressed records."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from benchmarks.report import sections
from benchmarks.report.blocks import Blocks, pack
from benchmarks.report.bubbles import bubbles
from benchmarks.report.escaping import embedded
from benchmarks.report.runs import ReportedRun
from mage_envs.durable import write_atomically

SCRIPTS = ("text.js", "records.js", "listing.js", "transcript.js", "page.js")
"""In the order in which they stand in the page, all in one scope."""


REPORT = "report.html"
"""In the folder of a run, or of a suite."""
MOST_MB = 20.0
"""Largest size of a file by default, in 10^6 bytes."""


def write_report(path: Path, runs: Sequence[ReportedRun], most_mb: float = MOST_MB) -> Blocks:
    """Writes the report of these runs; what of their transcripts is in it. Raises as `document`, and OSError."""
    text, blocks = document(runs, most_mb)
    write_atomically(path, text)
    return blocks


def document(runs: Sequence[ReportedRun], most_mb: float) -> tuple[str, Blocks]:
    """The file's text, and what of the transcripts is in it.

    Raises ValueError where even without a transcript it is larger than `most_mb` (10^6 bytes).
    """
    groups = sections.grouped(runs)
    script = "(() => {\n'use strict';\n" + "\n".join(map(_part, SCRIPTS)) + "\n})();"
    style = _part("page.css")
    rest = len(_page(runs, groups, script, style, Blocks((), ({},) * len(runs), 0)).encode()) + 100 * len(runs)
    rest += 8 * sum(len(run.played) for run in runs)
    room = int(most_mb * 1e6) - rest
    if room < 0:
        raise ValueError(f"Without any transcript the report has {rest / 1e6:.1f} MB; raise --max-mb {most_mb:g}.")
    blocks = pack([run.pages for run in runs], int(room * 0.995))
    return _page(runs, groups, script, style, blocks), blocks


def _part(name: str) -> str:
    return files("benchmarks.report").joinpath("page", name).read_text("utf-8")


def _allowed(text: str) -> str:
    """How a content security policy names one script or style."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _page(
    runs: Sequence[ReportedRun], groups: Sequence[Sequence[ReportedRun]], script: str, style: str, blocks: Blocks
) -> str:
    title = f"Report: {sections.sentence(runs)[:-1]}"
    packed = (f'<script type="application/gzip" id="b{n}">{text}</script>' for n, text in enumerate(blocks.texts))
    policy = f"default-src 'none'; script-src {_allowed(script)}; style-src {_allowed(style)}; base-uri 'none'"
    body = files("benchmarks.report").joinpath("page", "page.html").read_text("utf-8")
    filled = {
        "TITLE": title,
        "POLICY": policy,
        "STYLE": style,
        "SENTENCE": sections.sentence(runs),
        "THINNED": _thinned(runs, blocks),
        "RUNS": sections.runs_table(runs),
        "RESULTS": sections.results_table(groups),
        "CURVES": sections.curves(groups),
        "LEARNED": sections.learned(groups),
        "BUBBLES": bubbles(groups),
        "INDEX": embedded(_index(groups, runs, blocks)),
        "SCRIPT": script,
        "BLOCKS": "\n".join(packed),
    }
    pieces = body.split("%%")
    return "".join(piece if place % 2 == 0 else filled[piece] for place, piece in enumerate(pieces))


def _thinned(runs: Sequence[ReportedRun], blocks: Blocks) -> str:
    if not blocks.left_out:
        return ""
    count = sum(len(run.pages) for run in runs)
    return (
        f'<p class="warning" role="note">The file is limited by --max-mb: {blocks.left_out:,} of {count:,} '
        "transcripts, evenly spread, are left out. The scores are of all meta-episodes.</p>"
    )


def _index(groups: Sequence[Sequence[ReportedRun]], runs: Sequence[ReportedRun], blocks: Blocks) -> dict[str, Any]:
    """What the list of transcripts is made of."""
    places = {run.key: found for run, found in zip(runs, blocks.places, strict=True)}
    return {
        "runs": [
            {
                "key": run.key,
                "name": run.method,
                "setting": name,
                "unit": run.summary.unit,
                "alone": run.summary.rows_are == "tasks",
                "rows": [
                    [
                        *(one.place, one.label, one.outcomes, one.gain, one.calls, one.invalid),
                        *(one.failure, places[run.key].get(one.place, -1)),
                    ]
                    for one in run.played
                ],
            }
            for name, group in zip(sections.setting_names(groups), groups, strict=True)
            for run in group
        ]
    }
