"""Adaptation curves as SVG: every run of a setting by episode with its interval, and the exact values beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from benchmarks.evaluation.estimates import Estimate
from benchmarks.evaluation.paired import Pairs
from benchmarks.evaluation.scores import Measure, ScoreRow, per_hand
from benchmarks.report.escaping import short, shown
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
"""As many as `COLOURS`: no two of them share a shape, so readers who do not see a colour lose nothing."""
COLOURS = 8
"""Colours of runs in page.css."""


class Series(NamedTuple):
    """One curve."""

    name: str
    place: int
    """Of the run in its setting, which its colour and shape follow."""
    points: Sequence[Estimate]


class Reference(NamedTuple):
    """A dashed curve of exact values, None where an episode has none."""

    name: str
    kind: str
    """Its class in page.css: `ceiling`, `bayes`, `blind`, `floor`."""
    values: Sequence[float | None]


class ChartSize(NamedTuple):
    width: int
    height: int
    left: int = 46
    right: int = 14
    top: int = 14
    bottom: int = 34


LARGE, SMALL = ChartSize(600, 310, right=104), ChartSize(300, 200)
_APART = 7.0
"""Pixels between the marks of two runs at the same episode."""


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
    """An SVG. `limits` of the scale: those of what is drawn by default. Each point's title tells its interval and n.

    `names` of the points along the `axis`: their numbers by default.
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
    for number, one in reversed(list(enumerate(series))):
        apart = _APART * (number - (len(series) - 1) / 2)
        parts += _curve(one, [place + apart for place in x], y, banded=len(series) < 3)
    return "".join(parts) + "</svg>"


def limits_of(series: Sequence[Series], references: Sequence[Reference]) -> tuple[float, float]:
    """A scale that holds 0 and all that is drawn."""
    seen = [0.0]
    for one in series:
        for point in one.points:
            seen += [value for value in (point.mean, point.low, point.high) if value is not None]
    seen += [value for one in references for value in one.values if value is not None]
    margin = 0.05 * (max(seen) - min(seen)) or 0.5
    return min(seen) - margin, max(seen) + margin


def _ticks(low: float, high: float) -> list[float]:
    """Round values between the limits, about five."""
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
            while any(abs(height - other) < 13 for other in taken):
                height += 3
            taken.append(height)
            yield f'<text x="{size.width - size.right + 4}" y="{height}">{shown(short(one.name, 18))}</text>'
        yield "</g>"


def _line(points: Sequence[tuple[float, float]]) -> str:
    return f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'


def _curve(one: Series, x: Sequence[float], y: Callable[[float], float], banded: bool) -> Iterator[str]:
    """The line, a mark and an interval per episode, and a band between the intervals where it hides nothing."""
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
    """Return the shape of a run, so that its colour alone never identifies it."""
    shape = _SHAPES[place % len(_SHAPES)]
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>'
    if shape == "square":
        return f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"/>'
    return f'<polygon points="{" ".join(f"{x + a:.1f},{y + b:.1f}" for a, b in _CORNERS[shape])}"/>'


def switch(place: int, name: str) -> str:
    """What shows and hides a curve, with its mark as the key."""
    colour = f"c{place % COLOURS}"
    return (
        f'<label class="{colour}"><input type="checkbox" data-switch="{place}" checked> '
        f'<svg viewBox="-8 -8 16 16" class="key" aria-hidden="true"><g class="series {colour}">'
        f"{mark(place, 0, 0)}</g></svg>{shown(name)}</label>"
    )


def interval(point: Estimate) -> str:
    """The mean with its 95% interval."""
    if point.low is None or point.high is None:
        return f"{point.mean:.3f}"
    return f"{point.mean:.3f} [{point.low:.3f}, {point.high:.3f}]"


# -- what is drawn of a setting ----------------------------------------------------------------------------------


class View(NamedTuple):
    """One measure that a reader can choose."""

    kind: str
    """In page.css: `headline`, `success`, `pass`."""
    name: str
    points: Callable[[ScoreRow], Sequence[Estimate]]
    measure: Callable[[ScoreRow], Sequence[Measure]]
    proportion: bool


def views(run: ReportedRun) -> list[View]:
    """The headline measure, success where that is another one, Pass@k; under early stop Pass@k alone comes first."""

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
    return [passed, *found] if run.summary.early_stop else [*found, passed]


def references(run: ReportedRun, row: ScoreRow, view: View, overall: bool) -> list[Reference]:
    """The exact values of a row, and over all of them the floors."""
    measures = view.measure(row)
    found = [
        Reference("best response", "ceiling", [m.ceiling for m in measures]),
        Reference("best blind", "blind", [m.uninformed for m in measures]),
    ]
    if view.kind == "headline" and row.optimal:
        found.insert(1, Reference("Bayes-optimal", "bayes", row.optimal))
    if overall and view.kind != "success":
        for floor in run.floors:
            found.append(Reference(floor.opponent, "floor", [point.mean for point in view.points(floor)]))
    return [one for one in found if any(value is not None for value in one.values)]


class RowFigure(NamedTuple):
    """What one row of the scores has to draw."""

    title: str
    series: Sequence[Series]
    references: Sequence[Reference]

    def svg(self, size: ChartSize, limits: tuple[float, float] | None) -> str:
        if not self.series:
            return '<p class="quiet">n/a</p>'
        return chart(self.title, self.series, self.references, size, limits=limits)


def figure(runs: Sequence[ReportedRun], view: View, name: str | None) -> RowFigure:
    """One opponent or category of a setting, all of them where `name` is None."""
    rows = [(place, run, row) for place, run in enumerate(runs) if (row := _row(run, name)) is not None]
    series = [Series(run.method, place, points) for place, run, row in rows if (points := view.points(row))]
    lines = references(rows[0][1], rows[0][2], view, name is None) if rows else []
    return RowFigure(f"{view.name} by episode, {name or 'all'}, in {runs[0].setting}", series, lines)


def figures(runs: Sequence[ReportedRun], view: View) -> tuple[str, dict[str, str]]:
    """The figure of all, and those of the opponents or categories on one scale, where there are several."""
    bounds = (0.0, 1.0) if view.proportion else None
    names = labels(runs)
    parts = {name: figure(runs, view, name) for name in (names if len(names) > 1 else ())}
    every = [one for one in parts.values() if one.series]
    if bounds is None and every:
        scales = [limits_of(one.series, one.references) for one in every]
        common = (min(low for low, _ in scales), max(high for _, high in scales))
    else:
        common = bounds or (0.0, 1.0)
    return figure(runs, view, None).svg(LARGE, bounds), {name: one.svg(SMALL, common) for name, one in parts.items()}


def paired(first: ReportedRun, other: ReportedRun) -> list[Estimate]:
    """The other run minus the first by episode, over the tasks that both played, as `mage-bench compare` has it."""
    objective = first.summary.objective
    mine = {one.place: one for one in first.played if one.failure is None}
    pairs = [(mine[one.place], one) for one in other.played if one.failure is None and one.place in mine]
    weights = {row.opponent: row.weight for row in first.summary.rows}

    def value(one: Played, k: int) -> float:
        return per_hand(one.episodes[k]) if objective == "returns" else float(one.episodes[k].success)

    planned = first.about["setting"]["options"]["num_episodes"]
    if not pairs or any(len(one.episodes) < planned for pair in pairs for one in pair):
        return []  # after early stop episodes are those of the losers alone
    table = Pairs([a.cluster for a, _ in pairs], [a.label for a, _ in pairs], weights)
    for k in range(planned):
        table.add(f"episode {k + 1}", [value(b, k) for _, b in pairs], [value(a, k) for a, _ in pairs])
    return [Estimate(row.mean, row.low, row.high, row.n) for row in table.differences()]


def labels(runs: Sequence[ReportedRun]) -> list[str]:
    """The opponents, or categories, of a setting in the order in which they came up."""
    return list(dict.fromkeys(row.opponent for run in runs for row in run.summary.rows))


def _row(run: ReportedRun, name: str | None) -> ScoreRow | None:
    rows: Mapping[str | None, ScoreRow] = {row.opponent: row for row in run.summary.rows}
    return run.summary.overall if name is None else rows.get(name)
