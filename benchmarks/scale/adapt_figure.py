"""The figure of `mage adapt`: level and adaptation of each agent, with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mage_envs.benchmarks import figures
from mage_envs.benchmarks.scale.adapt_table import AdaptResult
from mage_envs.benchmarks.scale.scale import ScaleScore
from mage_envs.benchmarks.scale.stored_suites import NONE, OTHER
from mage_envs.text.visible import one_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SERIES = (
    ("level", "#3b6ea8", "o"),
    ("own memory", "#c05a2b", "s"),
    ("other's memory", "#3f8f5f", "D"),
)
"""Name, colour and marker of each number, as the columns of the table are called."""
_APART = 0.22
"""Vertical distance of the numbers of one agent, in rows."""


def adapt_figure(results: Sequence[AdaptResult]) -> Figure:
    """Return the figure of agents in one suite, from above. A failed meta-episode makes a bar a range without a marker.

    Raises ImportError if matplotlib is not installed.
    """
    figure = figures.blank(7.6, 1.7 + 0.55 * len(results), subject="The figure of mage adapt")
    axis = figure.subplots()
    for number, (name, colour, marker) in enumerate(SERIES):
        for row, result in enumerate(results):
            score = (result.level(), result.difference(NONE), result.difference(OTHER))[number]
            if score is not None and not score.unmet:
                _draw_score(axis, row + (number - 1) * _APART, score, colour, marker)
        axis.plot([], [], color=colour, marker=marker, markersize=5, label=name)
    for level, line in ((0.0, ":"), (1.0, "--")):
        axis.axvline(level, color="#222222", linestyle=line, linewidth=1.3)
    axis.set_yticks(range(len(results)), [one_line(result.agent) for result in results], fontsize=8)
    axis.set_ylim(len(results) - 0.5, -0.5)
    axis.set_xlabel("0: no memory, or a memory that is worth nothing; 1: the level of the best learner", fontsize=8)
    axis.set_title(f"{results[0].suite}: level and adaptation, with 95% intervals", fontsize=9)
    figures.finish(figure, axis, "x", 3)
    return figure


def _draw_score(axis: Any, height: float, score: ScaleScore, colour: str, marker: str) -> None:
    if score.floor is not None and score.ceiling is not None:
        axis.plot([score.floor, score.ceiling], [height, height], color=colour, linewidth=1.6)
    if score.is_complete:
        axis.plot([score.mean], [height], color=colour, marker=marker, markersize=5)
