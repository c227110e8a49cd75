"""Reports of a summary: a plain-text table, JSON, CSV, and a figure."""

from __future__ import annotations

import csv
import importlib.util
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mage_envs.benchmarks.evaluation.scoring.call_stats import REPLY_PROBLEMS
from mage_envs.benchmarks.evaluation.scoring.estimates import Estimate
from mage_envs.benchmarks.evaluation.scoring.scores import Measure, ScoreRow, Summary, read_scores
from mage_envs.cli.tables import Block, TextTable, as_text
from mage_envs.files.atomic import write_atomically, write_json
from mage_envs.files.bounded import read_inside
from mage_envs.text.visible import one_line, visible

SUMMARY = "summary.json"
NOT_KNOWN = "n/a"
PROBLEM_COLUMNS = tuple(name.replace("_", " ") for name in REPLY_PROBLEMS)
_NUMBERS = re.compile(r"[-+0-9.,eE\[\]±% ]*")
"""Pattern of a number with its interval, which may begin with a sign."""
FORMULA_SIGNS = ("=", "+", "-", "@")
"""First characters of a cell that make a spreadsheet execute it."""
_AGENT = "#1f5fa8"
_LINES = {
    "no memory": ("#6b6b6b", ":"),
    "blind": ("#6b6b6b", ":"),
    "best learner": ("#2f7d4f", "-."),
    "knows the opponent": ("#b3472c", "--"),
}
"""Colour and style of each exact line."""
_CONTROLS = ("#8a5fb0", "#3f8f5f", "#c08a1e")


def select_episodes(count: int) -> tuple[int, ...]:
    """Return the episodes, from 1, that fit a table of 80 columns: at most 1, 2, 3, 5 and the last."""
    return tuple(range(1, count + 1)) if count <= 5 else (1, 2, 3, 5, count)


def table(summary: Summary, controls: Sequence[ScoreRow] = ()) -> str:
    """Return `blocks` as plain text."""
    return as_text(blocks(summary, controls))


def blocks(summary: Summary, controls: Sequence[ScoreRow] = ()) -> list[Block]:
    """Return the headline measure per opponent and episode with its interval and exact values, then the other rates.

    `controls` are further rows, such as the overall row of another evaluation under another name. The baselines of the
    summary are the last rows.
    """
    rows = [*summary.rows, *([summary.overall] if len(summary.rows) > 1 else []), *controls, *summary.floors]
    rows += [] if summary.with_losses is None else [summary.with_losses]
    wins = summary.objective == "success"
    measure = "success rate" if wins else f"{summary.unit} per hand"
    head = f"{one_line(summary.agent)} in {summary.env_id}" + (f" ({summary.panel})" if summary.panel else "")
    episodes = max(len(row.episodes) for row in rows)
    if summary.early_stop:
        lines = [head, "", *_early_stop_blocks(rows, summary, measure), *_metrics(rows, summary, episodes)]
        return [*lines, *summary.overall.warnings()]
    columns = [summary.rows_are, *(f"episode {k}" for k in range(1, episodes + 1))]
    columns += [f"gain 1 to {episodes}"] if episodes > 1 else []
    columns += ["blind", "knows the opponent"]
    main = [_headline(row, summary, episodes) for row in rows]
    rates = [_rates(row, summary, episodes) for row in rows]
    rate_columns = [summary.rows_are, *(f"pass@{k}" for k in range(1, episodes + 1))]
    rate_columns += ["n"] if wins else [*(f"success {k}" for k in range(1, episodes + 1)), "n"]
    rate_columns += ["draws", "timeouts", *PROBLEM_COLUMNS, "failed"]
    title = f"{measure[0].upper()}{measure[1:]} with 95% intervals; exact values for episode {episodes}"
    further = "Success within the first k episodes (pass@k) and in each; shares of episodes, of answers, and failures"
    lines = [head, "", title, TextTable(columns, main), "", further, TextTable(rate_columns, rates)]
    return [*lines, *_metrics(rows, summary, episodes), *summary.overall.warnings()]


def _early_stop_blocks(rows: Sequence[ScoreRow], summary: Summary, measure: str) -> list[Block]:
    """Return the blocks for meta-episodes that end with their first success.

    Pass@k of all meta-episodes is first. The scores of those that continued follow.
    """
    planned = max(len(row.pass_at) for row in rows)
    solved = [
        [
            *(row.opponent or "all", *map(_interval, row.pass_at), *[NOT_KNOWN] * (planned - len(row.pass_at))),
            *(str(row.meta_episodes), *problem_cells(row), str(row.failures)),
        ]
        for row in rows
    ]
    columns = [summary.rows_are, *(f"pass@{k}" for k in range(1, planned + 1)), "n", *PROBLEM_COLUMNS, "failed"]
    most_episodes = max(len(row.episodes) for row in rows)
    estimates = [[episode.measure(summary.objective).estimate for episode in row.episodes] for row in rows]
    still = [
        [
            row.opponent or "all",
            *(f"{_interval(e)} of {e.n}" for e in cells),
            *[NOT_KNOWN] * (most_episodes - len(cells)),
        ]
        for row, cells in zip(rows, estimates, strict=True)
    ]
    return [
        "Solved by episode k (pass@k), of all meta-episodes, with 95% intervals; each ends with its first success",
        TextTable(columns, solved),
        "",
        f"{measure[0].upper()}{measure[1:]} among those alone who had not succeeded before, and how many they were",
        TextTable([summary.rows_are, *(f"episode {k}" for k in range(1, most_episodes + 1))], still),
    ]


def _headline(row: ScoreRow, summary: Summary, episodes: int) -> list[str]:
    measures = [episode.measure(summary.objective) for episode in row.episodes]
    cells = [row.opponent or "all", *(_interval(measure.estimate) for measure in measures)]
    cells += [NOT_KNOWN] * (episodes - len(measures))
    if episodes > 1:
        cells.append(_interval(row.success_gain if summary.objective == "success" else row.gain, signed=True))
    last_measure = measures[-1] if len(measures) == episodes else None
    return [
        *cells,
        number(last_measure.blind if last_measure else None),
        number(last_measure.ceiling if last_measure else None),
    ]


def _rates(row: ScoreRow, summary: Summary, episodes: int) -> list[str]:
    cells = [row.opponent or "all", *(_percent(estimate) for estimate in row.pass_at)]
    cells += [NOT_KNOWN] * (episodes - len(row.pass_at))
    if summary.objective != "success":
        cells += [_percent(episode.success.estimate) for episode in row.episodes]
        cells += [NOT_KNOWN] * (episodes - len(row.episodes))
    sample_sizes = [episode.success.estimate.n for episode in row.episodes]
    cells.append(str(row.meta_episodes) if len(set(sample_sizes)) <= 1 else "/".join(map(str, sample_sizes)))
    count = max(len(row.episodes), 1)
    draws = sum(episode.draws for episode in row.episodes) / count
    timeouts = sum(episode.timeouts for episode in row.episodes) / count
    return [*cells, f"{draws:.1%}", f"{timeouts:.1%}", *problem_cells(row), str(row.failures)]


def problem_cells(row: ScoreRow) -> list[str]:
    """Return the cells below `PROBLEM_COLUMNS`: shares of the replies."""
    return [f"{share:.1%}" for share in row.reply_problems().values()]


def _metrics(rows: Sequence[ScoreRow], summary: Summary, episodes: int) -> list[Block]:
    """Return the blocks of the game's own metrics; empty if the game has none."""
    names = sorted({name for row in rows for episode in row.episodes for name in episode.metrics})
    if not names:
        return []
    columns = [summary.rows_are, *(f"{name} {k}" for name in names for k in range(1, episodes + 1))]
    cells = []
    for row in rows:
        metrics = [row.episodes[k].metrics if k < len(row.episodes) else {} for k in range(episodes)]
        cells.append([row.opponent or "all", *(number(values.get(name)) for name in names for values in metrics)])
    return ["", "The game's metrics at the end of each episode, means", TextTable(columns, cells)]


def _interval(estimate: Estimate | None, signed: bool = False) -> str:
    if estimate is None:
        return NOT_KNOWN
    mean = f"{round(estimate.mean, 3) + 0.0:+.3f}" if signed else number(estimate.mean)
    if estimate.low is None or estimate.high is None:
        return mean
    return f"{mean} [{number(estimate.low)}, {number(estimate.high)}]"


def number(value: float | None) -> str:
    """Return a number with three decimals. Adding 0.0 turns a negative zero into zero."""
    return NOT_KNOWN if value is None else f"{round(value, 3) + 0.0:.3f}"


def share(value: float | None) -> str:
    """Return a share with two decimals and without the zero before the point: `.43`, `-1.20`."""
    if value is None:
        return NOT_KNOWN
    text = f"{round(value, 2) + 0.0:.2f}"
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def _percent(estimate: Estimate) -> str:
    return f"{estimate.mean:.1%}"


# -- files -----------------------------------------------------------------------------------------------------


def save(folder: Path, summary: Summary, figure: bool = True, judged_curves: JudgedCurves | None = None) -> list[Path]:
    """Write summary.json, scores.csv and adaptation.png, and return their paths.

    Args:
        figure: False to omit the figure. It is also omitted if matplotlib is not installed.
        judged_curves: Curves of the judged agent, for the figure.
    """
    written = [folder / SUMMARY, folder / "scores.csv"]
    write_json(written[0], summary.to_json())
    write_atomically(written[1], csv_text(summary))
    if figure and importlib.util.find_spec("matplotlib") is not None:
        written.append(folder / "adaptation.png")
        adaptation_figure(written[-1], summary, judged_curves=judged_curves)
    return written


def load(folder: Path) -> Summary:
    """Return the summary that `save` wrote to a folder.

    Raises:
        FileNotFoundError: If the folder has no summary.
        ValueError: If the file holds something else.
    """
    return read_scores(Summary, read_inside(folder, SUMMARY))


def format_delimited(rows: Iterable[Sequence[object]], delimiter: str = ",") -> str:
    """Return the rows as CSV, or with another delimiter between the fields. None becomes an empty field.

    Text that begins with `=`, `+`, `-` or `@` gets a leading apostrophe, because spreadsheets would execute it.
    """
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: object) -> object:
    if not isinstance(value, str):
        return value
    # A tab or a line end before the sign hides it from a check of the first character, not from a spreadsheet.
    executes = value.lstrip().startswith(FORMULA_SIGNS) and not _NUMBERS.fullmatch(value)
    return visible(f"'{value}" if executes else value)


def csv_text(summary: Summary, delimiter: str = ",") -> str:
    """Return one line per opponent, episode and measure, and one per opponent and problem of replies."""
    head = ("opponent", "episode", "measure", "mean", "low", "high", "n", "blind", "knows_the_opponent")
    lines: list[Sequence[object]] = [head]
    lost = () if summary.with_losses is None else (summary.with_losses,)
    for row in (*summary.rows, summary.overall, *lost, *summary.floors):
        for number, episode in enumerate(row.episodes, start=1):
            for name, measure in ((f"{summary.unit} per hand", episode.returns), ("success", episode.success)):
                e = measure.estimate
                exact = (measure.blind, measure.ceiling)
                lines.append((row.opponent, number, name, e.mean, e.low, e.high, e.n, *exact))
        for number, e in enumerate(row.pass_at, start=1):
            lines.append((row.opponent, number, "pass@k", e.mean, e.low, e.high, e.n, *[None] * 2))
        calls = sum(shares.calls for shares in row.calls.values())
        for name, value in row.reply_problems().items():
            measure_name = f"replies, {name.replace('_', ' ')}"
            lines.append((row.opponent, None, measure_name, value, None, None, calls, *[None] * 2))
    return format_delimited(lines, delimiter)


# -- the figure ------------------------------------------------------------------------------------------------


class JudgedCurves(NamedTuple):
    """Curves of a judged agent, per hand of each episode."""

    lines: Mapping[str, Sequence[float]]
    """Exact lines by their names in `_LINES`."""
    controls: Mapping[str, Sequence[float]]
    """Luck-adjusted values of the controls; without episodes in which a meta-episode failed."""


def adaptation_figure(
    path: Path | str,
    summary: Summary,
    learning_curve: Sequence[tuple[float, float]] | None = None,
    judged_curves: JudgedCurves | None = None,
) -> None:
    """Write a PNG with one panel per opponent: the measure by episode with its interval, and the exact values.

    Args:
        summary: Scores to draw. Its baselines stand in the last panel.
        learning_curve: (training step, score) pairs, which are drawn in an additional panel.
        judged_curves: Curves of the same agent as it was judged, in the last panel.

    Raises:
        ImportError: If matplotlib is not installed.
    """
    rows = [*summary.rows, *([summary.overall] if len(summary.rows) > 1 else [])]
    curves = len(rows) + bool(learning_curve)
    # A line has at most four panels, or three if that leaves fewer gaps in the last line.
    columns = min(curves, 3 if curves in (3, 5, 6) else 4)
    lines = -(-curves // columns)
    # Imported here, because tables need no figure.
    from mage_envs.benchmarks import figures

    figure = figures.blank(3.3 * columns, 2.7 * lines + 0.9)
    axes = list(figure.subplots(lines, columns, squeeze=False).flat)
    for spare in axes[curves:]:
        spare.remove()
    label = "success rate" if summary.objective == "success" else f"{summary.unit} per hand"
    if learning_curve:
        _learning_panel(axes.pop(0), learning_curve, label)
    low, high = _limits([*rows, *summary.floors], summary, judged_curves)
    for index, (axis, row) in enumerate(zip(axes, rows)):
        _opponent_panel(axis, row, summary, judged_curves if row is rows[-1] else None, row is rows[-1])
        axis.set_ylim(low, high)
        if (index + bool(learning_curve)) % columns == 0 or index == 0:
            axis.set_ylabel(label)
    _legend(figure, axes[len(rows) - 1])
    figure.suptitle(f"{summary.agent} in {summary.env_id}", fontsize=11)
    figures.save(figure, Path(path))


def _measures(row: ScoreRow, summary: Summary) -> list[Measure]:
    return [episode.measure(summary.objective) for episode in row.episodes]


def _limits(rows: Sequence[ScoreRow], summary: Summary, judged_curves: JudgedCurves | None) -> tuple[float, float]:
    """Return a common scale for all opponents."""
    if summary.objective == "success":
        return -0.04, 1.04
    values: list[float] = [0.0]
    for row in rows:
        for m in _measures(row, summary):
            e = m.estimate
            values += [v for v in (e.mean, e.low, e.high, m.ceiling, m.blind) if v is not None]
    if judged_curves is not None:
        values += [value for line in judged_curves.lines.values() for value in line]
        values += [value for control in judged_curves.controls.values() for value in control]
    # If all values are equal, the axis would have no height.
    margin = 0.06 * (max(values) - min(values) or 1.0)
    return min(values) - margin, max(values) + margin


def _learning_panel(axis: Any, curve: Sequence[tuple[float, float]], label: str) -> None:
    axis.plot([step for step, _ in curve], [score for _, score in curve], color=_AGENT, linewidth=1.4)
    axis.set_title("learning curve", fontsize=9)
    axis.set_xlabel("training step")
    axis.set_ylabel(label)
    _quiet(axis)


def _opponent_panel(
    axis: Any, row: ScoreRow, summary: Summary, judged_curves: JudgedCurves | None, is_last: bool
) -> None:
    measures = _measures(row, summary)
    episodes = list(range(1, len(measures) + 1))
    if judged_curves is None:
        lines = {"knows the opponent": [m.ceiling for m in measures], "blind": [m.blind for m in measures]}
        controls = {floor.opponent: [m.estimate.mean for m in _measures(floor, summary)] for floor in summary.floors}
    else:
        lines = {name: list(values) for name, values in judged_curves.lines.items()}
        controls = {name: list(values) for name, values in judged_curves.controls.items()}
    for name, values in lines.items():
        points = [(k, value) for k, value in zip(episodes, values, strict=True) if value is not None]
        if points:
            color, style = _LINES[name]
            axis.plot(*zip(*points), color=color, linestyle=style, linewidth=1.4, label=name)
    for number, (name, means) in enumerate(controls.items() if is_last else ()):
        axis.plot(
            episodes[: len(means)],
            means,
            color=_CONTROLS[number % len(_CONTROLS)],
            marker="x",
            markersize=5,
            linewidth=1.2,
            label=name,
        )
    estimates = [m.estimate for m in measures]
    low = [e.mean if e.low is None else e.low for e in estimates]
    high = [e.mean if e.high is None else e.high for e in estimates]
    axis.fill_between(episodes, low, high, color=_AGENT, alpha=0.2, linewidth=0)
    axis.plot(
        episodes, [e.mean for e in estimates], color=_AGENT, marker="o", markersize=4, label="agent, 95% interval"
    )
    axis.set_title(row.opponent, fontsize=9)
    axis.set_xticks(episodes)
    axis.set_xlabel("episode")
    _quiet(axis)


def _quiet(axis: Any) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis="y", color="#e4e4e4", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.tick_params(labelsize=8)


def _legend(figure: Any, axis: Any) -> None:
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 5), fontsize=8, frameon=False)
