"""Adaptation curves as SVG: each run of a setting by episode with its interval, and the exact reference values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from benchmarks.evaluation.scoring.estimates import Estimate
from benchmarks.evaluation.scoring.paired import Pairs
from benchmarks.evaluation.scoring.scores import Measure, ScoreRow, per_hand
from benchmarks.report.html_text import short, shown
from benchmarks.report.runs import Played, ReportedRun
from opponents.exact import Objective

_CORNERS = {
    "triangle": ((0, -5.5), (5, 4), (-5, 4)),
    "diamond": ((0, -6), (5.5, 0), (0, 6), (-5.5, 0)),
    "wedge": ((0, 5.5), (5, -4), (-5, -4)),
    "hexagon": ((-2.6, -5), (2.6, -5), (5.6, 0), (2.6, 5), (-2.6, 5), (-5.6, 0)),
    "plus": (
        *((-1.8, -5.5), (1.8, -5.5), (1.8, -1.8), (5.5, -1.8), (5.5, 1.8), (1.8, 1.8)),
        *((1.8, 5.5), (-1.8, 5.5), (-1.8, 1.8), (-5.5, 1.8), (-5.5, -1.8), (-1.8, -1.8)),
    ),
    "star": (
        *((0, -6), (1.5, -2), (5.7, -1.9), (2.3, 0.8), (3.5, 4.9)),
        *((0, 2.5), (-3.5, 4.9), (-2.3, 0.8), (-5.7, -1.9), (-1.5, -2)),
    ),
}
_SHAPES = ("circle", "square", *_CORNERS)
"""Shapes of marks. There are as many as `COLOURS`, so the shape alone identifies a run if the colour is not visible."""
COLOURS = 8
"""Number of colours for runs in page.css."""


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


class ChartSize(NamedTuple):
    """Size and margins of a chart in pixels."""

    width: int
    height: int
    left: int = 46
    right: int = 14
    top: int = 14
    bottom: int = 34


LARGE, SMALL = ChartSize(600, 310, right=104), ChartSize(300, 200)
_APART = 7.0
"""Horizontal distance in pixels between the marks of two runs at the same episode."""


def chart(
    title: str,
    series: Sequence[Series],
    references: Sequence[Reference] = (),
    size: ChartSize = LARGE,
    *,
    limits: tuple[float, float] | None = None,
    axis: str = "episode",
    names: Sequence[str] = (),
) -> str:
    """Return a chart as SVG. The title of each point contains its interval and the number of samples.

    Args:
        title: Label of the chart for screen readers.
        series: Curves to draw.
        references: Dashed curves to draw.
        size: Size in pixels. Only `LARGE` charts have the names of the references.
        limits: Limits of the y axis (default: those of the drawn values).
        axis: Label of the x axis.
        names: Names of the points on the x axis (default: their numbers from 1).
    """
    episodes = max([len(one.points) for one in series] + [len(one.values) for one in references])
    low, high = limits or limits_of(series, references)
    ticks = _ticks(low, high)
    x = [size.left + (size.width - size.left - size.right) * (k + 0.5) / episodes for k in range(episodes)]

    def y(value: float) -> float:
        inside = size.height - size.top - size.bottom
        return round(size.top + inside * (1 - (value - low) / (high - low)), 2)

    parts = [
        f'<svg viewBox="0 0 {size.width} {size.height}" role="img" aria-label="{shown(title)}" '
        f'class="chart {"small" if size is SMALL else "large"}">'
    ]
    for tick in ticks:
        zero = " zero" if abs(tick) < 1e-12 else ""
        parts.append(
            f'<line class="grid{zero}" x1="{size.left}" x2="{size.width - size.right}" y1="{y(tick)}" y2="{y(tick)}"/>'
        )
        parts.append(f'<text class="tick end" x="{size.left - 6}" y="{y(tick) + 4}">{tick:g}</text>')
    below = names or [str(k + 1) for k in range(episodes)]
    parts += [f'<text class="tick" x="{x[k]:.1f}" y="{size.height - 16}">{below[k]}</text>' for k in range(episodes)]
    middle = (size.left + size.width - size.right) / 2
    parts.append(f'<text class="tick" x="{middle:.0f}" y="{size.height - 2}">{axis}</text>')
    parts += _references(references, x, y, size)
    # Drawn in reverse, so that the first run is on top. Bands of three or more runs would hide each other.
    for number, one in reversed(list(enumerate(series))):
        apart = _APART * (number - (len(series) - 1) / 2)
        parts += _curve(one, [place + apart for place in x], y, banded=len(series) < 3)
    return "".join(parts) + "</svg>"


def limits_of(series: Sequence[Series], references: Sequence[Reference]) -> tuple[float, float]:
    """Return limits of the y axis that include 0 and all drawn values."""
    seen = [0.0]
    for one in series:
        for point in one.points:
            seen += [value for value in (point.mean, point.low, point.high) if value is not None]
    seen += [value for one in references for value in one.values if value is not None]
    margin = 0.05 * (max(seen) - min(seen)) or 0.5
    return min(seen) - margin, max(seen) + margin


def _ticks(low: float, high: float) -> list[float]:
    """Return about five round values between the limits."""
    # The step is the smallest of 1, 2, 5 and 10 times a power of ten that reaches the rough one.
    rough = (high - low) / 5
    power = 10.0 ** len(str(int(rough))) / 10 if rough >= 1 else 1.0
    while power > rough:
        power /= 10
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first = int(low / step) - 1
    return [round(k * step, 10) for k in range(first, first + 12) if low - 1e-9 <= k * step <= high + 1e-9]


def _references(
    references: Sequence[Reference], x: Sequence[float], y: Callable[[float], float], size: ChartSize
) -> Iterator[str]:
    taken: list[float] = []
    for one in references:
        known = [(x[k], y(value)) for k, value in enumerate(one.values) if value is not None]
        if not known:
            continue
        half = (x[1] - x[0]) / 2 if len(x) > 1 else 40.0
        told = ", ".join("n/a" if value is None else f"{value:.3f}" for value in one.values)
        path = [(known[0][0] - half * 0.6, known[0][1]), *known, (known[-1][0] + half * 0.6, known[-1][1])]
        yield f'<g class="reference {one.kind}"><title>{shown(one.name)}: {told}</title>{_line(path)}'
        if size is LARGE:
            height = known[-1][1] + 4
            # Moved down until it overlaps no earlier label; 13 pixels are the height of a line.
            while any(abs(height - other) < 13 for other in taken):
                height += 3
            taken.append(height)
            yield f'<text x="{size.width - size.right + 4}" y="{height}">{shown(short(one.name, 18))}</text>'
        yield "</g>"


def _line(points: Sequence[tuple[float, float]]) -> str:
    return f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'


def _curve(one: Series, x: Sequence[float], y: Callable[[float], float], banded: bool) -> Iterator[str]:
    """Yield the SVG of a curve: a line, a mark and an interval per episode, and a band of intervals if `banded`."""
    points = [(x[k], y(point.mean)) for k, point in enumerate(one.points)]
    yield f'<g class="series c{one.place % COLOURS}" data-series="{one.place}">'
    known = [(x[k], p.low, p.high) for k, p in enumerate(one.points) if p.low is not None and p.high is not None]
    if banded and len(known) > 1:
        edge = [(a, y(high)) for a, _, high in known] + [(a, y(low)) for a, low, _ in reversed(known)]
        yield f'<polygon class="band" points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in edge)}"/>'
    for a, low, high in known:
        yield f'<line class="whisker" x1="{a:.1f}" x2="{a:.1f}" y1="{y(low)}" y2="{y(high)}"/>'
    yield _line(points)
    for k, ((a, b), point) in enumerate(zip(points, one.points, strict=True)):
        told = f"{shown(one.name)}, episode {k + 1}: {interval(point)}, n = {point.n}"
        yield f'<g class="point"><title>{told}</title>{mark(one.place, a, b)}</g>'
    yield "</g>"


def mark(place: int, x: float, y: float) -> str:
    """Return the mark of a run as SVG, centred at (x, y).

    Args:
        place: Index of the run, which determines the shape.
        x: Horizontal position in pixels.
        y: Vertical position in pixels.
    """
    shape = _SHAPES[place % len(_SHAPES)]
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>'
    if shape == "square":
        return f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"/>'
    return f'<polygon points="{" ".join(f"{x + a:.1f},{y + b:.1f}" for a, b in _CORNERS[shape])}"/>'


def switch(place: int, name: str) -> str:
    """Return a checkbox that shows or hides a curve, with the mark of the curve as its key."""
    colour = f"c{place % COLOURS}"
    return (
        f'<label class="{colour}"><input type="checkbox" data-switch="{place}" checked> '
        f'<svg viewBox="-8 -8 16 16" class="key" aria-hidden="true"><g class="series {colour}">'
        f"{mark(place, 0, 0)}</g></svg>{shown(name)}</label>"
    )


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
        Reference("best response", "ceiling", [m.ceiling for m in measures]),
        Reference("best blind", "blind", [m.uninformed for m in measures]),
    ]
    # The Bayes-optimal value is known for the headline measure only.
    if view.kind == "headline" and row.optimal:
        found.insert(1, Reference("Bayes-optimal", "bayes", row.optimal))
    if overall and view.kind != "success":
        for floor in run.floors:
            found.append(Reference(floor.opponent, "floor", [point.mean for point in view.points(floor)]))
    return [one for one in found if any(value is not None for value in one.values)]


class RowFigure(NamedTuple):
    """Curves and reference values for one row of the scores."""

    title: str
    series: Sequence[Series]
    references: Sequence[Reference]

    def svg(self, size: ChartSize, limits: tuple[float, float] | None) -> str:
        """Return the chart as SVG, or a note if no run has this measure."""
        if not self.series:
            return '<p class="quiet">n/a</p>'
        return chart(self.title, self.series, self.references, size, limits=limits)


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


def figures(runs: Sequence[ReportedRun], view: View) -> tuple[str, dict[str, str]]:
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
    return figure(runs, view, None).svg(LARGE, bounds), {name: one.svg(SMALL, common) for name, one in parts.items()}


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
