"""Sections of the report that are plain HTML: runs, results, adaptation curves and largest swings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from math import sqrt

from benchmarks.evaluation.scoring.scores import ScoreRow
from benchmarks.evaluation.suites.paper import is_reported_at, reported
from benchmarks.evaluation.tables.summary_table import NOT_KNOWN
from benchmarks.report.charts import Series, View, chart, figures, interval, paired, switch, views
from benchmarks.report.html_text import shown
from benchmarks.report.runs import ReportedRun

_NOTHING = f"<td>{NOT_KNOWN}</td>" * 2
MAX_LISTED_SWINGS = 10
"""Number of listed meta-episodes with the largest gain, and of those with the largest loss."""


def grouped(runs: Sequence[ReportedRun]) -> list[list[ReportedRun]]:
    """Return the runs grouped by setting."""
    found: dict[str, list[ReportedRun]] = {}
    for run in runs:
        found.setdefault(run.group, []).append(run)
    return list(found.values())


def setting_names(groups: Sequence[Sequence[ReportedRun]]) -> list[str]:
    """Return one name per setting. Equal names get the beginning of a digest."""
    names = [group[0].setting for group in groups]
    return [name if names.count(name) == 1 else f"{name}, {group[0].group[:6]}" for name, group in zip(names, groups)]


def sentence(runs: Sequence[ReportedRun]) -> str:
    """Return one sentence with the number of agents, meta-episodes, episodes and settings."""
    methods = list(dict.fromkeys(run.method for run in runs))
    settings = setting_names(grouped(runs))
    agents = shown(methods[0]) if len(methods) == 1 else f"{len(methods)} agents"
    where = shown(settings[0]) if len(settings) == 1 else f"{len(settings)} settings"
    count = sum(len(run.played) for run in runs)
    episodes = sum(len(one.episodes) for run in runs for one in run.played)
    return f"{agents} played {count:,} meta-episodes with {episodes:,} episodes in {where}."


def runs_table(runs: Sequence[ReportedRun]) -> str:
    """Return a table with one row per run: setting, fingerprint, checks and costs. All options are below it."""
    head = (
        *("agent", "setting", "fingerprint", "verified", "played"),
        *("failed", "calls", "no text", "tokens in / out", "model time"),
    )
    rows = []
    for run in runs:
        tokens = NOT_KNOWN if run.tokens is None else f"{run.tokens[0]:,} / {run.tokens[1]:,}"
        cells = (
            *(run.method, run.setting, run.about["fingerprint"][:12], run.verified),
            f"{len(run.played)} of {run.planned}",
            *(str(run.failed), f"{run.calls:,}", f"{run.no_text:,}", tokens, _time(run.seconds)),
        )
        rows.append("".join(f"<td>{shown(cell)}</td>" for cell in cells))
    body = "".join(f'<tr><th scope="row" class="id">{run.key}</th>{row}</tr>' for run, row in zip(runs, rows))
    options = "<details><summary>All settings</summary>" + "".join(map(_options, runs)) + "</details>"
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="runs"><table class="runs"><thead><tr><th></th>'
        f"{''.join(f'<th>{name}</th>' for name in head)}</tr></thead><tbody>{body}</tbody></table></div>{options}"
    )


def _time(seconds: float) -> str:
    # A unit is used from ten of it on, so that two digits remain.
    unit, size = next((one for one in (("h", 3600), ("min", 60)) if seconds >= 10 * one[1]), ("s", 1))
    return f"{seconds / size:.0f} {unit}"


def _options(run: ReportedRun) -> str:
    told = {name: run.about[name] for name in ("setting", "agent", "started", "commit", "versions", "platform", "argv")}
    text = shown(json.dumps(told, indent=1, ensure_ascii=False))
    return f"<h4>{run.key}, {shown(run.method)}</h4>{_calls(run)}<pre>{text}</pre>"


def _calls(run: ReportedRun) -> str:
    """Return a table of the calls by kind, the number of failures by cause, and the warnings."""
    rows = "".join(
        f'<tr><th scope="row">{shown(kind)}</th><td>{one.calls:,}</td><td>{one.invalid:.1%}</td>'
        f"<td>{one.cut:.1%}</td><td>{one.overflow:.1%}</td><td>{one.no_text:.1%}</td></tr>"
        for kind, one in run.summary.overall.calls.items()
    )
    names = ("kind of call", "calls", "invalid", "cut", "prompt too long", "no text")
    head = "".join(f"<th>{name}</th>" for name in names)
    failed = ", ".join(f"{count} {kind}" for kind, count in run.summary.overall.failed_by.items())
    broken = f'<p class="quiet">Failed: {shown(failed)}.</p>' if failed else ""
    broken += "".join(f"<p>{shown(text)}</p>" for text in run.summary.overall.warnings())
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{broken}"


# -- the table -------------------------------------------------------------------------------------------------


def results_table(groups: Sequence[Sequence[ReportedRun]]) -> str:
    """Return a table of methods by settings: last episode and Pass@K with intervals, and the paper in grey."""
    names = setting_names(groups)
    methods = list(dict.fromkeys(run.method for group in groups for run in group))
    heads = "".join(f'<th colspan="2" scope="colgroup">{shown(name)}</th>' for name in names)
    below = "".join(f'<th scope="col">{shown(_last(group[0]))}</th><th scope="col">Pass@K</th>' for group in groups)
    rows = []
    for method in methods:
        cells = []
        for group in groups:
            mine = [run for run in group if run.method == method]
            # A method that was run twice at a setting has one row, with its last run.
            cells.append("".join(_cells(run, run.summary.overall) for run in mine[-1:]) or _NOTHING)
        rows.append(f'<tr><th scope="row">{shown(method)}</th>{"".join(cells)}</tr>')
        rows += _lost_row(method, groups)
    rows += _exact_rows(groups)
    rows += _paper_rows(groups)
    head = f'<thead><tr><th rowspan="2">agent</th>{heads}</tr><tr>{below}</tr></thead>'
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="results"><table class="results">'
        f"{head}<tbody>{''.join(rows)}</tbody></table></div>"
        '<p class="quiet">95% intervals, clustered by seed. Grey: reported in arXiv 2603.03680, one run of 128 '
        "meta-episodes, with the standard error sqrt(p (1 - p) / 128); n/a: not measured.</p>"
    )


def _last(run: ReportedRun) -> str:
    last = run.about["setting"]["options"]["num_episodes"]
    unit = "success" if run.summary.objective == "success" else f"{run.summary.unit} per hand"
    return f"{unit}, episode {last}"


def _lost_row(method: str, groups: Sequence[Sequence[ReportedRun]]) -> Iterator[str]:
    """Yield the row of a method with failures counted as losses, if failures exceed 1% in any setting."""
    chosen = [[run for run in group if run.method == method][-1:] for group in groups]
    if any(run.summary.with_losses for mine in chosen for run in mine):
        told = [[_cells(run, lost) for run in mine if (lost := run.summary.with_losses)] for mine in chosen]
        cells = "".join("".join(one) or "<td></td>" * 2 for one in told)
        yield f'<tr class="exact"><th scope="row">{shown(method)}, failures as losses</th>{cells}</tr>'


def _cells(run: ReportedRun, row: ScoreRow) -> str:
    last = row.episodes[-1].measure(run.summary.objective).estimate if row.episodes else None
    # Under early stop the last episode is played only after losses, so its mean is not shown.
    conditional = run.summary.early_stop or last is None
    cells = [None if conditional else last, row.pass_at[-1] if row.pass_at else None]
    return "".join(f"<td>{NOT_KNOWN if cell is None else _split(interval(cell))}</td>" for cell in cells)


def _split(text: str) -> str:
    mean, _, rest = text.partition(" ")
    return f'<b>{mean}</b> <span class="interval">{rest}</span>'


def _exact_rows(groups: Sequence[Sequence[ReportedRun]]) -> Iterator[str]:
    """Yield rows with the exact values of the last episode, if a setting has any."""
    for name, kind in (("best response", "ceiling"), ("Bayes-optimal", "bayes"), ("best blind", "uninformed")):
        cells = []
        for group in groups:
            run = group[0]
            row = run.summary.overall
            measure = row.episodes[-1].measure(run.summary.objective) if row.episodes else None
            value: float | None = None
            if kind == "bayes":
                value = row.optimal[-1] if row.optimal else None
            elif measure is not None:
                value = measure.ceiling if kind == "ceiling" else measure.uninformed
            cells.append(f"<td>{NOT_KNOWN if value is None else f'{value:.3f}'}</td><td></td>")
        if any(NOT_KNOWN not in cell for cell in cells):
            yield f'<tr class="exact"><th scope="row">{name}</th>{"".join(cells)}</tr>'


def _paper_column(run: ReportedRun) -> str:
    """Return the panel's name without its size; empty if the paper measured at another protocol or length."""
    setting = run.about["setting"]
    measured = is_reported_at(run.about["env_kwargs"].get("protocol"), setting["options"]["num_episodes"])
    return str(setting["name"]).rpartition("-")[0] if measured else ""


def _paper_rows(groups: Sequence[Sequence[ReportedRun]]) -> Iterator[str]:
    told: dict[str, dict[str, tuple[float, str]]] = {}
    count = reported()["meta_episodes"]
    for table in reported()["tables"]:
        for method, values in table["rows"].items():
            for column, value in zip(table["columns"], values, strict=True):
                told.setdefault(method, {})[column] = (value, table["measure"])
    columns = [_paper_column(group[0]) for group in groups]
    for method, values in told.items():
        if not any(column in values for column in columns):
            continue
        cells = []
        for column in columns:
            if column not in values:
                cells.append(f"<td></td><td>{NOT_KNOWN}</td>")
                continue
            p, measure = values[column]
            error = f'<b>{p:.3f}</b> <span class="interval">± {sqrt(p * (1 - p) / count):.3f}</span>'
            cells.append(f"<td></td><td>{error}{'' if measure == 'success rate' else f' {measure}'}</td>")
        yield f'<tr class="paper"><th scope="row">{method} (paper)</th>{"".join(cells)}</tr>'


# -- curves ----------------------------------------------------------------------------------------------------


def curves(groups: Sequence[Sequence[ReportedRun]]) -> str:
    """Return one section per setting: choice of the measure, switches of the runs, a figure, one more per opponent."""
    return "".join(
        _setting_curves(number, name, group)
        for number, (name, group) in enumerate(zip(setting_names(groups), groups, strict=True))
    )


def _setting_curves(number: int, name: str, group: Sequence[ReportedRun]) -> str:
    choices = views(group[0])
    radios = "".join(
        f'<label><input type="radio" name="measure{number}" value="{view.kind}"{" checked" if first else ""}> '
        f"{shown(view.name)}</label>"
        for first, view in ((view is choices[0], view) for view in choices)
    )
    switches = "".join(switch(place, run.method) for place, run in enumerate(group))
    measured = [(view, *figures(group, view)) for view in choices]
    overall = "".join(f'<div class="view {view.kind}">{svg}</div>' for view, svg, _ in measured)
    further = "".join(_further(group, view, parts) for view, _, parts in measured)
    return (
        f'<section class="curves" data-view="{choices[0].kind}"><h3>{shown(name)}</h3>'
        f'<fieldset class="choice"><legend>Measure</legend>{radios}</fieldset>'
        f'<fieldset class="choice"><legend>Agents</legend>{switches}</fieldset>'
        f'<div class="two"><div><h4>All</h4>{overall}</div>{_differences(group)}</div>{further}</section>'
    )


def _further(group: Sequence[ReportedRun], view: View, parts: Mapping[str, str]) -> str:
    """Return the figures per opponent for one measure, and its numbers as a table."""
    cells = "".join(
        f"<figure><figcaption>{shown(name or 'all')}</figcaption>{svg}</figure>" for name, svg in parts.items()
    )
    multiples = f'<div class="multiples">{cells}</div>' if cells else ""
    return f'<div class="view {view.kind}">{multiples}{_numbers(group, view)}</div>'


def _numbers(group: Sequence[ReportedRun], view: View) -> str:
    """Return the curves as a table, for users that cannot see the figure."""
    rows = []
    for run in group:
        overall: ScoreRow = run.summary.overall
        for row in [*run.summary.rows, *([overall] if len(run.summary.rows) > 1 else [])]:
            cells = "".join(f"<td>{interval(point)}</td>" for point in view.points(row))
            rows.append(
                f'<tr><th scope="row">{shown(run.method)}</th><td>{shown(row.opponent or "all")}</td>{cells}</tr>'
            )
    most = max((len(view.points(run.summary.overall)) for run in group), default=0)
    head = "".join(f"<th>{k + 1}</th>" for k in range(most))
    return (
        "<details><summary>The same as numbers</summary>"
        '<div class="scroll" tabindex="0" role="region" aria-label="numbers"><table>'
        f"<thead><tr><th>agent</th><th>opponent or tasks</th>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div></details>"
    )


def _differences(group: Sequence[ReportedRun]) -> str:
    """Return a figure of the paired differences between each other run and the first one."""
    series = [
        Series(f"{run.method} minus {group[0].method}", place, points)
        for place, run in enumerate(group)
        if place and (points := paired(group[0], run))
    ]
    if not series:
        return ""
    measure = "success" if group[0].summary.objective == "success" else f"{group[0].summary.unit} per hand"
    title = f"Paired difference from {group[0].method}, {measure}"
    return (
        f"<div><h4>Difference from {shown(group[0].method)}: {shown(measure)}, paired by task</h4>"
        f"{chart(title, series)}</div>"
    )


# -- largest swings -------------------------------------------------------------------------------------------


def learned(groups: Sequence[Sequence[ReportedRun]]) -> str:
    """Return lists of the meta-episodes with the largest gains and losses of each setting."""
    return "".join(_learned(name, group) for name, group in zip(setting_names(groups), groups, strict=True))


def _learned(name: str, group: Sequence[ReportedRun]) -> str:
    found = [(one.gain, one, run) for run in group for one in run.played if one.gain is not None]
    if not found:
        return f'<h3>{shown(name)}</h3><p class="quiet">No meta-episode played a first and a last episode.</p>'
    # The index is the second key, so that equal gains have the same order in every report.
    gains = sorted((one for one in found if one[0] > 0), key=lambda one: (-one[0], one[1].place))[:MAX_LISTED_SWINGS]
    losses = sorted((one for one in found if one[0] < 0), key=lambda one: (one[0], one[1].place))[:MAX_LISTED_SWINGS]
    lists = []
    for title, chosen in (("Largest gain", gains), ("Largest loss", losses)):
        items = "".join(
            f'<li><a href="#{run.key}/{one.place}">{run.key}/{one.place}</a> '
            f'<span class="outcomes">{one.outcomes}</span> <b>{gain:+.3g}</b> '
            f'<span class="quiet">{shown(one.label or "all")}, {shown(run.method)}</span></li>'
            for gain, one, run in chosen
        )
        lists.append(
            f"<div><h4>{title}</h4>" + (f"<ol>{items}</ol>" if items else '<p class="quiet">None.</p>') + "</div>"
        )
    unit = "success" if group[0].summary.objective == "success" else f"{group[0].summary.unit} per hand"
    about = f'<p class="quiet">Last episode minus first, in {shown(unit)}.</p>'
    return f'<h3>{shown(name)}</h3>{about}<div class="two">{"".join(lists)}</div>'
