"""Adaptation curves: each run of a setting by episode with its interval, and the exact reference values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import floor, log10
from typing import NamedTuple

from mage_envs.benchmarks.evaluation.scoring.estimates import Estimate
from mage_envs.benchmarks.evaluation.scoring.paired import Pairs
from mage_envs.benchmarks.evaluation.scoring.scores import Measure, ScoreRow, per_hand
from mage_envs.benchmarks.report.runs import Played, ReportedRun
from mage_envs.opponents.exact import Objective


class Series(NamedTuple):
    """Curve of one run."""

    name: str
    position: int
    """Index of the run in its setting, which determines its colour and shape."""
    points: Sequence[Estimate]


class Reference(NamedTuple):
    """Dashed curve of reference values."""

    name: str
    kind: str
    """Class in page.css: `ceiling`, `bayes`, `blind` or `floor` (a baseline)."""
    values: Sequence[float | None]
    """Value per episode, or None if it is not known."""

    @property
    def title(self) -> str:
        """The name with all values."""
        return f"{self.name}: " + ", ".join("n/a" if value is None else f"{value:.3f}" for value in self.values)


class ChartSize(NamedTuple):
    """Size and margins of a chart in pixels."""

    name: str
    """Class in page.css. Only `large` charts have the names of the references."""
    width: int
    height: int
    left: int = 46
    right: int = 14
    top: int = 14
    bottom: int = 34


LARGE, SMALL = ChartSize("large", 600, 310, right=104), ChartSize("small", 300, 200)
_APART = 7.0
"""Horizontal distance in pixels between the marks of two runs at the same episode."""


@dataclass(frozen=True)
class Chart:
    """Curves by episode. page/chart.html writes them as SVG, with positions in pixels from these methods."""

    title: str
    """Label of the chart for screen readers."""
    series: Sequence[Series]
    references: Sequence[Reference] = ()
    size: ChartSize = LARGE
    limits: tuple[float, float] | None = None
    """Limits of the y axis (default: those of the drawn values)."""
    axis: str = "episode"
    """Label of the x axis."""
    names: Sequence[str] = ()
    """Names of the points on the x axis (default: their numbers from 1)."""

    @cached_property
    def columns(self) -> list[str]:
        """The names of the points on the x axis."""
        count = max([len(curve.points) for curve in self.series] + [len(curve.values) for curve in self.references])
        return list(self.names) or [str(k + 1) for k in range(count)]

    @cached_property
    def _limits(self) -> tuple[float, float]:
        return self.limits or limits_of(self.series, self.references)

    def x(self, k: float, number: int | None = None) -> float:
        """Return the horizontal position of a column, or of a curve's mark in it."""
        size = self.size
        apart = 0.0 if number is None else _APART * (number - (len(self.series) - 1) / 2)
        return round(size.left + (size.width - size.left - size.right) * (k + 0.5) / len(self.columns) + apart, 1)

    def y(self, value: float) -> float:
        """Return the vertical position of a value."""
        size, (low, high) = self.size, self._limits
        inside = size.height - size.top - size.bottom
        return round(size.top + inside * (1 - (value - low) / (high - low)), 2)

    def curve(self, number: int) -> str:
        """Return the points of a curve, as in SVG."""
        points = self.series[number].points
        return _line((self.x(k, number), self.y(point.mean)) for k, point in enumerate(points))

    def band(self, number: int) -> str:
        """Return the points around the intervals of a curve; empty if bands of three or more runs would overlap."""
        estimates = [(self.x(k, number), estimate) for k, estimate in enumerate(self.series[number].points)]
        high = [(x, self.y(estimate.high)) for x, estimate in estimates if estimate.high is not None]
        low = [(x, self.y(estimate.low)) for x, estimate in estimates if estimate.low is not None]
        return _line([*high, *reversed(low)]) if len(self.series) < 3 and len(high) > 1 else ""

    def dashes(self, values: Sequence[float | None]) -> str:
        """Return the points of a reference curve, which is a little longer than its episodes."""
        points = [(k, self.y(value)) for k, value in enumerate(values) if value is not None]
        # 0.3 columns on each side; a single column would make it too long.
        overhang = 0.3 if len(self.columns) > 1 else 24.0 / (self.size.width - self.size.left - self.size.right)
        ends = (points[0][0] - overhang, points[0][1]), (points[-1][0] + overhang, points[-1][1])
        return _line((self.x(k), y) for k, y in (ends[0], *points, ends[1]))

    @cached_property
    def labels(self) -> list[float]:
        """The heights of the references' names."""
        heights: list[float] = []
        for reference in self.references:
            height = self.y([value for value in reference.values if value is not None][-1]) + 4
            # Moved down until it overlaps no earlier label; 13 pixels are the height of a line.
            while any(abs(height - occupied) < 13 for occupied in heights):
                height += 3
            heights.append(height)
        return heights

    @property
    def ticks(self) -> list[float]:
        """About five round values between the limits."""
        low, high = self._limits
        # The step is the smallest of 1, 2, 5 and 10 times a power of ten that reaches the rough one.
        rough = (high - low) / 5
        power = 10.0 ** floor(log10(rough))
        step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
        first_step = int(low / step) - 1
        return [
            round(k * step, 10) for k in range(first_step, first_step + 12) if low - 1e-9 <= k * step <= high + 1e-9
        ]


def limits_of(series: Sequence[Series], references: Sequence[Reference]) -> tuple[float, float]:
    """Return limits of the y axis that include 0 and all drawn values."""
    values = [0.0]
    for curve in series:
        for point in curve.points:
            values += [value for value in (point.mean, point.low, point.high) if value is not None]
    values += [value for curve in references for value in curve.values if value is not None]
    margin = 0.05 * (max(values) - min(values)) or 0.5
    return min(values) - margin, max(values) + margin


def _line(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def interval(point: Estimate) -> str:
    """Return the mean with its 95% interval as text."""
    if point.low is None or point.high is None:
        return f"{point.mean:.3f}"
    return f"{point.mean:.3f} [{point.low:.3f}, {point.high:.3f}]"


# -- the figures of a setting ------------------------------------------------------------------------------------


class View(NamedTuple):
    """Measure that the user can choose in the report."""

    kind: str
    """Class in page.css: `headline`, `success` or `pass`."""
    name: str
    points: Callable[[ScoreRow], Sequence[Estimate]]
    measure: Callable[[ScoreRow], Sequence[Measure]]
    proportion: bool


def views(run: ReportedRun) -> list[View]:
    """Return the measures of a run: the headline measure, success if it is another one, and Pass@k."""

    def of(objective: Objective) -> Callable[[ScoreRow], Sequence[Measure]]:
        return lambda row: [episode.measure(objective) for episode in row.episodes]

    def view(kind: str, name: str, objective: Objective) -> View:
        measures = of(objective)
        return View(
            kind,
            name,
            lambda row: [m.estimate for m in measures(row)],
            measure=measures,
            proportion=objective == "success",
        )

    means = []
    if run.summary.objective == "returns":
        means.append(view("headline", f"{run.summary.unit} per hand", "returns"))
        means.append(view("success", "success in the episode", "success"))
    else:
        means.append(view("headline", "success in the episode", "success"))
    passed = View("pass", "Pass@k", lambda row: row.pass_at, measure=lambda row: (), proportion=True)
    # Under early stop only losers play the later episodes, so their means are misleading and Pass@k is shown first.
    return [passed, *means] if run.summary.early_stop else [*means, passed]


def references(run: ReportedRun, row: ScoreRow, view: View, overall: bool) -> list[Reference]:
    """Return the reference curves of a row: its exact values, and the baselines in the figure of all rows.

    Args:
        run: The run that has the row.
        row: Scores against one opponent, or over all opponents.
        overall: True if the row is over all opponents.
    """
    measures = view.measure(row)
    curves = [
        Reference("knows the opponent", "ceiling", [m.ceiling for m in measures]),
        Reference("blind", "blind", [m.blind for m in measures]),
    ]
    # The value of the best learner is known for the headline measure only.
    if view.kind == "headline" and row.optimal:
        curves.insert(1, Reference("best learner", "bayes", row.optimal))
    if overall and view.kind != "success":
        for floor in run.floors:
            curves.append(Reference(floor.opponent, "floor", [point.mean for point in view.points(floor)]))
    return [curve for curve in curves if any(value is not None for value in curve.values)]


class RowFigure(NamedTuple):
    """Curves and reference values for one row of the scores."""

    title: str
    series: Sequence[Series]
    references: Sequence[Reference]

    def chart(self, size: ChartSize, limits: tuple[float, float] | None) -> Chart | None:
        """Return the chart, or None if no run has this measure."""
        return Chart(self.title, self.series, self.references, size=size, limits=limits) if self.series else None


def figure(runs: Sequence[ReportedRun], view: View, name: str | None) -> RowFigure:
    """Return the figure for one opponent or category of a setting.

    Args:
        name: Name of the opponent or category, or None for all of them.
    """
    rows = [(position, run, row) for position, run in enumerate(runs) if (row := _row(run, name)) is not None]
    series = [Series(run.method, position, points) for position, run, row in rows if (points := view.points(row))]
    # The references are those of the first run, because all runs of a setting have the same exact values.
    lines = references(rows[0][1], rows[0][2], view, name is None) if rows else []
    return RowFigure(f"{view.name} by episode, {name or 'all'}, in {runs[0].setting}", series, lines)


class ViewFigures(NamedTuple):
    """Figures of one measure. A figure is None if no run has the measure."""

    view: View
    overall: Chart | None
    parts: Mapping[str, Chart | None]
    """Figure per opponent or category, if there are several."""
    longest: int
    """Largest number of points of a curve."""


def figures(runs: Sequence[ReportedRun], view: View) -> ViewFigures:
    """Return the figure over all opponents, and the figures per opponent or category if there are several."""
    bounds = (0.0, 1.0) if view.proportion else None
    names = labels(runs)
    parts = {name: figure(runs, view, name) for name in (names if len(names) > 1 else ())}
    drawn_parts = [part for part in parts.values() if part.series]
    # One scale for all small figures, so that they can be compared.
    if bounds is None and drawn_parts:
        scales = [limits_of(part.series, part.references) for part in drawn_parts]
        common = (min(low for low, _ in scales), max(high for _, high in scales))
    else:
        common = bounds or (0.0, 1.0)
    small = {name: part.chart(SMALL, common) for name, part in parts.items()}
    longest = max(len(view.points(run.summary.overall)) for run in runs)
    return ViewFigures(view, figure(runs, view, None).chart(LARGE, bounds), small, longest)


def difference_by_episode(first_run: ReportedRun, other_run: ReportedRun) -> list[Estimate]:
    """Return the paired differences (other minus first) per episode over common tasks, as `mage compare` does."""
    objective = first_run.summary.objective
    mine = {entry.position: entry for entry in first_run.meta_episodes if entry.failure is None}
    pairs = [
        (mine[entry.position], entry)
        for entry in other_run.meta_episodes
        if entry.failure is None and entry.position in mine
    ]
    weights = {row.opponent: row.weight for row in first_run.summary.rows}

    def value(entry: Played, k: int) -> float:
        return per_hand(entry.episodes[k]) if objective == "returns" else float(entry.episodes[k].success)

    planned = first_run.about["setting"]["options"]["num_episodes"]
    # After early stop, only losers played the later episodes, so a difference of means would be biased.
    if not pairs or any(len(entry.episodes) < planned for pair in pairs for entry in pair):
        return []
    table = Pairs([a.cluster for a, _ in pairs], [a.label for a, _ in pairs], weights)
    for k in range(planned):
        table.add(f"episode {k + 1}", [value(b, k) for _, b in pairs], [value(a, k) for a, _ in pairs])
    return [Estimate(row.mean, row.low, row.high, row.n) for row in table.differences()]


def labels(runs: Sequence[ReportedRun]) -> list[str]:
    """Return the opponents or categories of a setting in order of first appearance."""
    return list(dict.fromkeys(row.opponent for run in runs for row in run.summary.rows))


def _row(run: ReportedRun, name: str | None) -> ScoreRow | None:
    rows: Mapping[str | None, ScoreRow] = {row.opponent: row for row in run.summary.rows}
    return run.summary.overall if name is None else rows.get(name)
