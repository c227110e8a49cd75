"""The report as one HTML file: its parts, its script and style, and the compressed records."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from benchmarks.report import sections
from benchmarks.report.blocks import Blocks, pack
from benchmarks.report.bubbles import bubbles
from benchmarks.report.escaping import embedded
from benchmarks.report.runs import ReportedRun
from benchmarks.report.trained import TrainedRun
from benchmarks.report.trained import section as training
from benchmarks.report.trained import sentence as trained_sentence
from mage_envs.durable import write_atomically

SCRIPTS = ("text.js", "records.js", "listing.js", "transcript.js", "page.js")
"""In the order in which they stand in the page, all in one scope."""


REPORT = "report.html"
"""In the folder of a run, or of a suite."""
MOST_MB = 20.0
"""Largest size of a file by default, in 10^6 bytes."""


def write_report(
    path: Path, runs: Sequence[ReportedRun], most_mb: float = MOST_MB, trained: Sequence[TrainedRun] = ()
) -> Blocks:
    """Writes the report of these runs; what of their transcripts is in it. Raises as `document`, and OSError."""
    text, blocks = document(runs, most_mb, trained)
    write_atomically(path, text)
    return blocks


def document(runs: Sequence[ReportedRun], most_mb: float, trained: Sequence[TrainedRun] = ()) -> tuple[str, Blocks]:
    """The file's text, and what of the transcripts is in it.

    Raises ValueError where even without a transcript it is larger than `most_mb` (10^6 bytes).
    """
    script = "(() => {\n'use strict';\n" + "\n".join(map(_part, SCRIPTS)) + "\n})();"
    style = _part("page.css")
    told: Sequence[ReportedRun | TrainedRun] = (*runs, *trained)
    rest = len(_page(runs, trained, script, style, Blocks((), ({},) * len(told), 0)).encode()) + 100 * len(told)
    rest += 8 * sum(len(run.played) for run in told)
    room = int(most_mb * 1e6) - rest
    if room < 0:
        raise ValueError(f"Without any transcript the report has {rest / 1e6:.1f} MB; raise --max-mb {most_mb:g}.")
    blocks = pack([run.pages for run in told], int(room * 0.995))
    return _page(runs, trained, script, style, blocks), blocks


def _part(name: str) -> str:
    return files("benchmarks.report").joinpath("page", name).read_text("utf-8")


def _allowed(text: str) -> str:
    """How a content security policy names one script or style."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _page(runs: Sequence[ReportedRun], trained: Sequence[TrainedRun], script: str, style: str, blocks: Blocks) -> str:
    groups = sections.grouped(runs)
    sentence = " ".join(([sections.sentence(runs)] if runs else []) + ([trained_sentence(trained)] if trained else []))
    packed = (f'<script type="application/gzip" id="b{n}">{text}</script>' for n, text in enumerate(blocks.texts))
    policy = f"default-src 'none'; script-src {_allowed(script)}; style-src {_allowed(style)}; base-uri 'none'"
    body = files("benchmarks.report").joinpath("page", "page.html").read_text("utf-8")
    filled = {
        "TITLE": f"Report: {sentence[:-1]}",
        "KIND": "both" if runs and trained else "evaluated" if runs else "trained",
        "POLICY": policy,
        "STYLE": style,
        "SENTENCE": sentence,
        "THINNED": _thinned((*runs, *trained), blocks),
        "RUNS": sections.runs_table(runs) if runs else "",
        "TRAINED": training(trained),
        "RESULTS": sections.results_table(groups),
        "CURVES": sections.curves(groups),
        "LEARNED": sections.learned(groups),
        "BUBBLES": bubbles(groups),
        "INDEX": embedded(_index(groups, runs, trained, blocks)),
        "SCRIPT": script,
        "BLOCKS": "\n".join(packed),
    }
    pieces = body.split("%%")
    return "".join(piece if place % 2 == 0 else filled[piece] for place, piece in enumerate(pieces))


def _thinned(runs: Sequence[ReportedRun | TrainedRun], blocks: Blocks) -> str:
    if not blocks.left_out:
        return ""
    count = sum(len(run.pages) for run in runs)
    return (
        f'<p class="warning" role="note">The file is limited by --max-mb: {blocks.left_out:,} of {count:,} '
        "transcripts, evenly spread, are left out. The scores are of all meta-episodes.</p>"
    )


def _index(
    groups: Sequence[Sequence[ReportedRun]], runs: Sequence[ReportedRun], trained: Sequence[TrainedRun], blocks: Blocks
) -> dict[str, Any]:
    """What the list of transcripts is made of."""
    keys = [*(run.key for run in runs), *(run.key for run in trained)]
    places = dict(zip(keys, blocks.places, strict=True))
    evaluated = [
        _listed(run, places[run.key], run.method, name, run.summary.unit, run.summary.rows_are == "tasks")
        for name, group in zip(sections.setting_names(groups), groups, strict=True)
        for run in group
    ]
    unit = "in the game's unit"
    return {
        "runs": evaluated + [_listed(run, places[run.key], run.name, str(run.folder), unit, False) for run in trained]
    }


def _listed(
    run: ReportedRun | TrainedRun, blocks: Mapping[int, int], name: str, setting: str, unit: str, alone: bool
) -> dict[str, Any]:
    rows = [
        [
            *(one.place, one.label, one.outcomes, one.gain, one.calls, one.invalid, one.no_text),
            *(one.failure, blocks.get(one.place, -1)),
        ]
        for one in run.played
    ]
    return {"key": run.key, "name": name, "setting": setting, "unit": unit, "alone": alone, "rows": rows}
