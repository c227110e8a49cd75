"""Values that the report's sections show: settings, results, figures and largest swings. page/*.html write them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from math import sqrt
from typing import NamedTuple

from mage_envs.benchmarks.evaluation.scoring.scores import ScoreRow
from mage_envs.benchmarks.evaluation.suites.paper import find_reported_panel, load_reported_scores
from mage_envs.benchmarks.evaluation.tables.summary_table import NOT_KNOWN
from mage_envs.benchmarks.report.charts import (
    Chart,
    Series,
    ViewFigures,
    difference_by_episode,
    figures,
    interval,
    views,
)
from mage_envs.benchmarks.report.runs import Played, ReportedRun

MAX_LISTED_SWINGS = 10
"""Number of listed meta-episodes with the largest gain, and of those with the largest loss."""


class SettingRuns(NamedTuple):
    """Runs of the same tasks and options."""

    name: str
    runs: Sequence[ReportedRun]


def settings(runs: Sequence[ReportedRun]) -> list[SettingRuns]:
    """Return the settings of the runs, each with one name. Equal names get the beginning of a digest."""
    groups: dict[str, list[ReportedRun]] = {}
    for run in runs:
        groups.setdefault(run.group, []).append(run)
    names = [group[0].setting for group in groups.values()]
    return [
        SettingRuns(name if names.count(name) == 1 else f"{name}, {key[:6]}", group)
        for name, (key, group) in zip(names, groups.items(), strict=True)
    ]


def sentence(runs: Sequence[ReportedRun]) -> str:
    """Return one sentence with the number of agents, meta-episodes, episodes and settings."""
    methods = list(dict.fromkeys(run.method for run in runs))
    played_at = settings(runs)
    agents = methods[0] if len(methods) == 1 else f"{len(methods)} agents"
    where = played_at[0].name if len(played_at) == 1 else f"{len(played_at)} settings"
    count = sum(len(run.meta_episodes) for run in runs)
    episodes = sum(len(meta_episode.episodes) for run in runs for meta_episode in run.meta_episodes)
    return f"{agents} played {count:,} meta-episodes with {episodes:,} episodes in {where}."


def duration(seconds: float) -> str:
    """Return a time with its unit, such as `12 min`."""
    # A unit is used from ten of it on, so that two digits remain.
    unit, size = next((scale for scale in (("h", 3600), ("min", 60)) if seconds >= 10 * scale[1]), ("s", 1))
    return f"{seconds / size:.0f} {unit}"


def all_settings(run: ReportedRun) -> str:
    """Return everything that decides what a run played, as JSON."""
    names = ("setting", "agent", "replies", "started", "commit", "versions", "platform", "argv")
    fields = {name: run.about[name] for name in names if name in run.about}
    return json.dumps(fields, indent=1, ensure_ascii=False)


# -- the table -------------------------------------------------------------------------------------------------


class ResultCell(NamedTuple):
    """Cell of the results: a text, or a mean with its interval or standard error."""

    text: str = ""
    interval: str | None = None
    measure: str = ""


class ResultRow(NamedTuple):
    """Row of the results, with two cells per setting."""

    name: str
    cells: Sequence[ResultCell]
    kind: str = ""
    """Class in page.css: `exact`, `paper`, or none for an agent."""


def result_rows(setting_runs: Sequence[SettingRuns]) -> list[ResultRow]:
    """Return the rows of methods by settings: last episode and Pass@K with intervals, and the paper in grey."""
    rows: list[ResultRow] = []
    for method in dict.fromkeys(run.method for setting in setting_runs for run in setting.runs):
        # A method that was run twice at a setting has one row, with its last run.
        latest_runs = [[run for run in setting.runs if run.method == method][-1:] for setting in setting_runs]
        scores = [[_cells(run, run.summary.overall) for run in mine] for mine in latest_runs]
        rows.append(ResultRow(method, _join_cells(scores, ResultCell(NOT_KNOWN))))
        # Failures are counted as losses too if they exceed 1% in any setting.
        lost = [[_cells(run, row) for run in mine if (row := run.summary.with_losses)] for mine in latest_runs]
        if any(lost):
            rows.append(ResultRow(f"{method}, failures as losses", _join_cells(lost, ResultCell()), "exact"))
    return [*rows, *_exact_rows(setting_runs), *_paper_rows(setting_runs)]


def _join_cells(cells: Sequence[Sequence[list[ResultCell]]], missing: ResultCell) -> list[ResultCell]:
    """Return the two cells of each setting in one list. A setting without a run has two cells `missing`."""
    return [cell for pair in cells for cell in (pair[0] if pair else (missing, missing))]


def _cells(run: ReportedRun, row: ScoreRow) -> list[ResultCell]:
    last_estimate = row.episodes[-1].measure(run.summary.objective).estimate if row.episodes else None
    # Under early stop the last episode is played only after losses, so its mean is not shown.
    conditional = run.summary.early_stop or last_estimate is None
    cells = [None if conditional else last_estimate, row.pass_at[-1] if row.pass_at else None]
    return [
        ResultCell(NOT_KNOWN) if cell is None else ResultCell(*interval(cell).partition(" ")[::2]) for cell in cells
    ]


def _exact_rows(setting_runs: Sequence[SettingRuns]) -> Iterator[ResultRow]:
    """Yield rows with the exact values of the last episode, if a setting has any."""
    for name, kind in (("knows the opponent", "ceiling"), ("best learner", "bayes"), ("blind", "blind")):
        values: list[float | None] = []
        for setting in setting_runs:
            run = setting.runs[0]
            row = run.summary.overall
            measure = row.episodes[-1].measure(run.summary.objective) if row.episodes else None
            value: float | None = None
            if kind == "bayes":
                value = row.optimal[-1] if row.optimal else None
            elif measure is not None:
                value = measure.ceiling if kind == "ceiling" else measure.blind
            values.append(value)
        if any(value is not None for value in values):
            texts = [NOT_KNOWN if value is None else f"{value:.3f}" for value in values]
            yield ResultRow(name, [cell for text in texts for cell in (ResultCell(text), ResultCell())], "exact")


def _paper_column(run: ReportedRun) -> str:
    """Return the panel's name without its size; empty if the paper's scores are of other tasks or options."""
    setting = run.about["setting"]
    options = setting["options"]
    panel = find_reported_panel(setting["name"], run.about["fingerprint"], options["memory"], options["context"])
    return panel or ""


def _paper_rows(setting_runs: Sequence[SettingRuns]) -> Iterator[ResultRow]:
    cells_by_method: dict[str, dict[str, ResultCell]] = {}
    count = load_reported_scores()["meta_episodes"]
    for table in load_reported_scores()["tables"]:
        measure = "" if table["measure"] == "success rate" else f" {table['measure']}"
        for method, values in table["rows"].items():
            for column, p in zip(table["panels"], values, strict=True):
                cell = ResultCell(f"{p:.3f}", f"± {sqrt(p * (1 - p) / count):.3f}", measure)
                cells_by_method.setdefault(method, {})[column] = cell
    columns = [_paper_column(setting.runs[0]) for setting in setting_runs]
    for method, cells in cells_by_method.items():
        if any(column in cells for column in columns):
            pairs = [(ResultCell(), cells.get(column, ResultCell(NOT_KNOWN))) for column in columns]
            yield ResultRow(f"{method} (paper)", [cell for pair in pairs for cell in pair], "paper")


# -- figures ---------------------------------------------------------------------------------------------------


def setting_figures(runs: Sequence[ReportedRun]) -> list[ViewFigures]:
    """Return the figures of each measure of a setting, the one that is shown first before the others."""
    return [figures(runs, view) for view in views(runs[0])]


def differences(runs: Sequence[ReportedRun]) -> Chart | None:
    """Return a figure of the paired differences between each other run and the first one, or None."""
    first_run = runs[0]
    series = [
        Series(f"{run.method} minus {first_run.method}", position, points)
        for position, run in enumerate(runs)
        if position and (points := difference_by_episode(first_run, run))
    ]
    return Chart(f"Paired difference from {first_run.method}, {first_run.measure}", series) if series else None


# -- largest swings -------------------------------------------------------------------------------------------


class Swing(NamedTuple):
    """Gain of a meta-episode from its first to its last episode."""

    gain: float
    run: ReportedRun
    meta_episode: Played


def swings(setting: SettingRuns) -> dict[str, list[Swing]]:
    """Return the meta-episodes with the largest gains and losses; empty if none played a first and a last episode."""
    all_swings = [
        Swing(entry.gain, run, entry) for run in setting.runs for entry in run.meta_episodes if entry.gain is not None
    ]
    if not all_swings:
        return {}
    # The index is the second key, so that equal gains have the same order in every report.
    gains = sorted((s for s in all_swings if s.gain > 0), key=lambda s: (-s.gain, s.meta_episode.position))
    losses = sorted((s for s in all_swings if s.gain < 0), key=lambda s: (s.gain, s.meta_episode.position))
    return {"Largest gain": gains[:MAX_LISTED_SWINGS], "Largest loss": losses[:MAX_LISTED_SWINGS]}
