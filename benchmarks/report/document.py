"""Report as one HTML file: sections, script, style and compressed transcripts."""

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
from benchmarks.report.html_text import embedded
from benchmarks.report.runs import ReportedRun
from benchmarks.report.trained import TrainedRun
from benchmarks.report.trained import section as training
from benchmarks.report.trained import sentence as trained_sentence
from mage_envs.files.atomic import write_atomically

SCRIPTS = ("text.js", "records.js", "listing.js", "transcript.js", "page.js")
"""Scripts in the order of the page. They share one scope."""


REPORT = "report.html"
"""File name of the report in the folder of a run or a suite."""
MOST_MB = 20.0
"""Default maximum size of a report in 10^6 bytes."""


def write_report(
    path: Path, runs: Sequence[ReportedRun], most_mb: float = MOST_MB, trained: Sequence[TrainedRun] = ()
) -> Blocks:
    """Write a report and return its embedded transcripts.

    Args:
        path: File to write.
        runs: Evaluated runs.
        most_mb: Maximum size of the file in 10^6 bytes.
        trained: Training runs.

    Raises:
        ValueError: If the report is larger than `most_mb` even without transcripts.
        OSError: If the file cannot be written.
    """
    text, blocks = document(runs, most_mb, trained)
    write_atomically(path, text)
    return blocks


def document(runs: Sequence[ReportedRun], most_mb: float, trained: Sequence[TrainedRun] = ()) -> tuple[str, Blocks]:
    """Return the text of a report and its embedded transcripts.

    Args:
        runs: Evaluated runs.
        most_mb: Maximum size of the text in 10^6 bytes.
        trained: Training runs.

    Raises:
        ValueError: If the report is larger than `most_mb` even without transcripts.
    """
    # One function scope: the scripts see each other's names, and the page gets no global ones.
    script = "(() => {\n'use strict';\n" + "\n".join(map(_part, SCRIPTS)) + "\n})();"
    style = _part("page.css")
    told: Sequence[ReportedRun | TrainedRun] = (*runs, *trained)
    # Size of the page without transcripts, with a reserve: numbers of blocks will replace -1 in the index.
    rest = len(_page(runs, trained, script, style, Blocks((), ({},) * len(told), 0)).encode()) + 100 * len(told)
    rest += 8 * sum(len(run.played) for run in told)
    room = int(most_mb * 1e6) - rest
    if room < 0:
        raise ValueError(f"Without any transcript the report has {rest / 1e6:.1f} MB; raise --max-mb {most_mb:g}.")
    # A reserve for the script elements around the blocks.
    blocks = pack([run.pages for run in told], int(room * 0.995))
    return _page(runs, trained, script, style, blocks), blocks


def _part(name: str) -> str:
    return files("benchmarks.report").joinpath("page", name).read_text("utf-8")


def _allowed(text: str) -> str:
    """Return the source expression of a script or style for the content security policy."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _page(runs: Sequence[ReportedRun], trained: Sequence[TrainedRun], script: str, style: str, blocks: Blocks) -> str:
    groups = sections.grouped(runs)
    sentence = " ".join(([sections.sentence(runs)] if runs else []) + ([trained_sentence(trained)] if trained else []))
    packed = (f'<script type="application/gzip" id="b{n}">{text}</script>' for n, text in enumerate(blocks.texts))
    policy = f"default-src 'none'; script-src {_allowed(script)}; style-src {_allowed(style)}; base-uri 'none'"
    body = files("benchmarks.report").joinpath("page", "page.html").read_text("utf-8")
    # The class of the body, with which page.css hides sections without content.
    if runs and trained:
        kind = "both"
    else:
        kind = "evaluated" if runs else "trained"
    filled = {
        "TITLE": f"Report: {sentence[:-1]}",
        "KIND": kind,
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
    # Split once instead of repeated replacements, because an inserted text may itself contain such a mark.
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
    """Return the data of the list of transcripts."""
    keys = [*(run.key for run in runs), *(run.key for run in trained)]
    places = dict(zip(keys, blocks.places, strict=True))
    evaluated = [
        _listed(run, places[run.key], run.method, name, run.summary.unit, run.summary.rows_are == "tasks")
        for name, group in zip(sections.setting_names(groups), groups, strict=True)
        for run in group
    ]
    # Transcripts of a training do not contain the unit of their game.
    unit = "in the game's unit"
    return {
        "runs": evaluated + [_listed(run, places[run.key], run.name, str(run.folder), unit, False) for run in trained]
    }


def _listed(
    run: ReportedRun | TrainedRun, blocks: Mapping[int, int], name: str, setting: str, unit: str, alone: bool
) -> dict[str, Any]:
    # Lists instead of objects, because keys would be repeated for each meta-episode; records.js has the same order.
    rows = [
        [
            *(one.place, one.label, one.outcomes, one.gain, one.calls, one.invalid, one.no_text),
            *(one.failure, blocks.get(one.place, -1)),
        ]
        for one in run.played
    ]
    return {"key": run.key, "name": name, "setting": setting, "unit": unit, "alone": alone, "rows": rows}
