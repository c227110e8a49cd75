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
    place: int
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
        count = max([len(one.points) for one in self.series] + [len(one.values) for one in self.references])
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
        points = [(self.x(k, number), one) for k, one in enumerate(self.series[number].points)]
        high = [(x, self.y(one.high)) for x, one in points if one.high is not None]
        low = [(x, self.y(one.low)) for x, one in points if one.low is not None]
        return _line([*high, *reversed(low)]) if len(self.series) < 3 and len(high) > 1 else ""

    def dashes(self, values: Sequence[float | None]) -> str:
        """Return the points of a reference curve, which is a little longer than its episodes."""
        known = [(k, self.y(value)) for k, value in enumerate(values) if value is not None]
        # 0.3 columns on each side; a single column would make it too long.
        more = 0.3 if len(self.columns) > 1 else 24.0 / (self.size.width - self.size.left - self.size.right)
        ends = (known[0][0] - more, known[0][1]), (known[-1][0] + more, known[-1][1])
        return _line((self.x(k), y) for k, y in (ends[0], *known, ends[1]))

    @cached_property
    def labels(self) -> list[float]:
        """The heights of the references' names."""
        taken: list[float] = []
        for one in self.references:
            height = self.y([value for value in one.values if value is not None][-1]) + 4
            # Moved down until it overlaps no earlier label; 13 pixels are the height of a line.
            while any(abs(height - other) < 13 for other in taken):
                height += 3
            taken.append(height)
        return taken

    @property
    def ticks(self) -> list[float]:
        """About five round values between the limits."""
        low, high = self._limits
        # The step is the smallest of 1, 2, 5 and 10 times a power of ten that reaches the rough one.
        rough = (high - low) / 5
        power = 10.0 ** floor(log10(rough))
        step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
        first = int(low / step) - 1
        return [round(k * step, 10) for k in range(first, first + 12) if low - 1e-9 <= k * step <= high + 1e-9]


def limits_of(series: Sequence[Series], references: Sequence[Reference]) -> tuple[float, float]:
    """Return limits of the y axis that include 0 and all drawn values."""
    seen = [0.0]
    for one in series:
        for point in one.points:
            seen += [value for value in (point.mean, point.low, point.high) if value is not None]
    seen += [value for one in references for value in one.values if value is not None]
    margin = 0.05 * (max(seen) - min(seen)) or 0.5
    return min(seen) - margin, max(seen) + margin


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

    found = []
    if run.summary.objective == "returns":
        found.append(view("headline", f"{run.summary.unit} per hand", "returns"))
        found.append(view("success", "success in the episode", "success"))
    else:
        found.append(view("headline", "success in the episode", "success"))
    passed = View("pass", "Pass@k", lambda row: row.pass_at, measure=lambda row: (), proportion=True)
    # Under early stop only losers play the later episodes, so their means are misleading and Pass@k is shown first.
    return [passed, *found] if run.summary.early_stop else [*found, passed]


def references(run: ReportedRun, row: ScoreRow, view: View, overall: bool) -> list[Reference]:
    """Return the reference curves of a row: its exact values, and the baselines in the figure of all rows.

    Args:
        run: The run that has the row.
        row: Scores against one opponent, or over all opponents.
        view: The measure to draw.
        overall: True if the row is over all opponents.
    """
    measures = view.measure(row)
    found = [
        Reference("knows the opponent", "ceiling", [m.ceiling for m in measures]),
        Reference("blind", "blind", [m.blind for m in measures]),
    ]
    # The value of the best learner is known for the headline measure only.
    if view.kind == "headline" and row.optimal:
        found.insert(1, Reference("best learner", "bayes", row.optimal))
    if overall and view.kind != "success":
        for floor in run.floors:
            found.append(Reference(floor.opponent, "floor", [point.mean for point in view.points(floor)]))
    return [one for one in found if any(value is not None for value in one.values)]


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
        runs: Runs of the setting.
        view: The measure to draw.
        name: Name of the opponent or category, or None for all of them.
    """
    rows = [(place, run, row) for place, run in enumerate(runs) if (row := _row(run, name)) is not None]
    series = [Series(run.method, place, points) for place, run, row in rows if (points := view.points(row))]
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
    every = [one for one in parts.values() if one.series]
    # One scale for all small figures, so that they can be compared.
    if bounds is None and every:
        scales = [limits_of(one.series, one.references) for one in every]
        common = (min(low for low, _ in scales), max(high for _, high in scales))
    else:
        common = bounds or (0.0, 1.0)
    small = {name: one.chart(SMALL, common) for name, one in parts.items()}
    longest = max(len(view.points(run.summary.overall)) for run in runs)
    return ViewFigures(view, figure(runs, view, None).chart(LARGE, bounds), small, longest)


def paired(first: ReportedRun, other: ReportedRun) -> list[Estimate]:
    """Return the paired differences (other minus first) per episode over common tasks, as `mage compare` does."""
    objective = first.summary.objective
    mine = {one.place: one for one in first.played if one.failure is None}
    pairs = [(mine[one.place], one) for one in other.played if one.failure is None and one.place in mine]
    weights = {row.opponent: row.weight for row in first.summary.rows}

    def value(one: Played, k: int) -> float:
        return per_hand(one.episodes[k]) if objective == "returns" else float(one.episodes[k].success)

    planned = first.about["setting"]["options"]["num_episodes"]
    # After early stop, only losers played the later episodes, so a difference of means would be biased.
    if not pairs or any(len(one.episodes) < planned for pair in pairs for one in pair):
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
