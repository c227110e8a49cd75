"""Report as one HTML file: sections, script, style and compressed transcripts."""

from __future__ import annotations

import importlib.util
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mage_envs.benchmarks.report import sections
from mage_envs.benchmarks.report.blocks import Blocks, pack
from mage_envs.benchmarks.report.bubbles import measure_choices
from mage_envs.benchmarks.report.charts import interval
from mage_envs.benchmarks.report.runs import ReportedRun
from mage_envs.benchmarks.report.trained import TrainedRun, sentence, training_chart
from mage_envs.files.atomic import write_atomically
from mage_envs.loading.extras import requires
from mage_envs.text.visible import visible

if TYPE_CHECKING:
    from jinja2 import Environment

SCRIPTS = ("text.js", "records.js", "listing.js", "transcript.js", "page.js")
"""Scripts in the order of the page. They share one scope."""
REPORT = "report.html"
"""File name of the report in the folder of a run or a suite."""
MOST_MB = 20.0
"""Default maximum size of a report in 10^6 bytes."""


class Heading(NamedTuple):
    """What a report says before all else."""

    sentence: str = ""
    """Level and adaptation of the agents, in one sentence each."""
    table: str = ""
    """Their table, as text."""


UNJUDGED = Heading()
"""Heading of a report without judged agents."""


def can_write_reports() -> bool:
    """Return True if Jinja is installed."""
    return importlib.util.find_spec("jinja2") is not None


def write_report(
    path: Path,
    runs: Sequence[ReportedRun],
    most_mb: float = MOST_MB,
    trained: Sequence[TrainedRun] = (),
    head: Heading = UNJUDGED,
) -> Blocks:
    """Write a report and return its embedded transcripts.

    Args:
        most_mb: Maximum size of the file in 10^6 bytes.
        head: Level and adaptation of the agents.

    Raises:
        ValueError: If the report is larger than `most_mb` even without transcripts.
        OSError: If the file cannot be written.
        ImportError: If Jinja is not installed.
    """
    text, blocks = document(runs, most_mb, trained, head)
    write_atomically(path, text)
    return blocks


def document(
    runs: Sequence[ReportedRun], most_mb: float, trained: Sequence[TrainedRun] = (), head: Heading = UNJUDGED
) -> tuple[str, Blocks]:
    """Return the text of a report and its embedded transcripts.

    Args:
        most_mb: Maximum size of the text in 10^6 bytes.
        head: Level and adaptation of the agents.

    Raises:
        ValueError: If the report is larger than `most_mb` even without transcripts.
    """
    # One function scope: the scripts see each other's names, and the page gets no global ones.
    script = "(() => {\n'use strict';\n" + "\n".join(map(_part, SCRIPTS)) + "\n})();"
    style = _part("page.css")
    all_runs: Sequence[ReportedRun | TrainedRun] = (*runs, *trained)
    # Size of the page without transcripts, with a reserve: numbers of blocks will replace -1 in the index.
    page_size = len(
        _page(runs, trained, (script, style, head), Blocks((), ({},) * len(all_runs), 0)).encode()
    ) + 100 * len(all_runs)
    page_size += 8 * sum(len(run.meta_episodes) for run in all_runs)
    room = int(most_mb * 1e6) - page_size
    if room < 0:
        raise ValueError(f"Without any transcript the report has {page_size / 1e6:.1f} MB; raise --max-mb {most_mb:g}.")
    # A reserve for the script elements around the blocks.
    blocks = pack([run.pages for run in all_runs], int(room * 0.995))
    return _page(runs, trained, (script, style, head), blocks), blocks


def static_page(template: str, **values: Any) -> str:
    """Return a page without scripts, whose policy forbids all of them.

    Args:
        template: File name of the template.
        **values: Values of the template, which it escapes.

    Raises:
        ImportError: If Jinja is not installed.
    """
    style = _part("page.css")
    policy = f"default-src 'none'; style-src {_source_expression(style)}; base-uri 'none'; form-action 'none'"
    return templates().get_template(template).render(policy=policy, style=style, **values)


def _part(name: str) -> str:
    return files("mage_envs.benchmarks.report").joinpath("page", name).read_text("utf-8")


def _source_expression(text: str) -> str:
    """Return the source expression of a script or style for the content security policy."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


@cache
def templates() -> Environment:
    """Return the templates of the page, which escape every value.

    Raises:
        ImportError: If Jinja is not installed.
    """
    with requires("The report", "report", "jinja2"):
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup

    def show_invisible(value: object) -> object:
        """Return the text of a value with invisible characters visible. Markup of the templates is returned as is."""
        return value if isinstance(value, Markup) else visible(str(value))

    environment = Environment(
        loader=PackageLoader("mage_envs.benchmarks.report", "page"),
        autoescape=True,
        finalize=show_invisible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    environment.filters |= {
        "thousands": "{:,}".format,
        "percent": lambda share, digits=1: f"{share:.{digits}%}",
        "interval": interval,
        "duration": sections.duration,
    }
    environment.globals |= {
        "all_settings": sections.all_settings,
        "differences": sections.differences,
        "measure_choices": measure_choices,
        "setting_figures": sections.setting_figures,
        "training_chart": training_chart,
        "swings": sections.swings,
        "training_table": _training_table,
    }
    return environment


def _page(
    runs: Sequence[ReportedRun], trained: Sequence[TrainedRun], texts: tuple[str, str, Heading], blocks: Blocks
) -> str:
    """Return the page. `texts` are its script, its style and its heading."""
    script, style, head = texts
    settings = sections.settings(runs)
    all_runs: Sequence[ReportedRun | TrainedRun] = (*runs, *trained)
    counts = sections.sentence(runs) if runs else "", sentence(trained) if trained else ""
    # The class of the body, with which page.css hides sections without content.
    if runs and trained:
        kind = "both"
    else:
        kind = "evaluated" if runs else "trained"
    return (
        templates()
        .get_template("page.html")
        .render(
            kind=kind,
            policy=(
                f"default-src 'none'; script-src {_source_expression(script)}; "
                f"style-src {_source_expression(style)}; base-uri 'none'"
            ),
            script=script,
            style=style,
            blocks=blocks.texts,
            sentence=" ".join(filter(None, [head.sentence, *counts])),
            levels=head.table,
            left_out=blocks.left_out,
            transcripts=sum(len(run.pages) for run in all_runs),
            runs=runs,
            trained=trained,
            settings=settings,
            results=sections.result_rows(settings),
            index=_index(settings, runs, trained, blocks),
        )
    )


def _index(
    settings: Sequence[sections.SettingRuns], runs: Sequence[ReportedRun], trained: Sequence[TrainedRun], blocks: Blocks
) -> dict[str, Any]:
    """Return the data of the list of transcripts."""
    keys = [*(run.key for run in runs), *(run.key for run in trained)]
    places = dict(zip(keys, blocks.places, strict=True))
    evaluated = [
        _index_entry(run, places[run.key], run.method, setting.name, run.summary.unit, run.summary.rows_are == "tasks")
        for setting in settings
        for run in setting.runs
    ]
    # Transcripts of a training do not contain the unit of their game.
    unit = "in the game's unit"
    return {
        "runs": evaluated
        + [_index_entry(run, places[run.key], run.name, str(run.folder), unit, False) for run in trained]
    }


def _index_entry(
    run: ReportedRun | TrainedRun, blocks: Mapping[int, int], name: str, setting: str, unit: str, has_no_opponents: bool
) -> dict[str, Any]:
    # Lists instead of objects, because keys would be repeated for each meta-episode; records.js has the same order.
    rows = [
        [
            *(entry.position, entry.label, entry.outcomes, entry.gain, entry.calls, entry.invalid, entry.no_text),
            *(entry.failure, blocks.get(entry.position, -1)),
        ]
        for entry in run.meta_episodes
    ]
    return {"key": run.key, "name": name, "setting": setting, "unit": unit, "alone": has_no_opponents, "rows": rows}


def _training_table(folder: Path) -> str:
    # Imported here, because reports of evaluations need no trainer.
    from mage_envs.trainer.runs.summary import table

    return table(folder)
