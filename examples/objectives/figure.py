"""Figure of the study: each learner's returns by episode, beside the optimum of its credit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from examples.objectives.report import LearnedRow
from examples.objectives.study import StudyGame
from mage_envs.benchmarks import figures

COLOURS = ("#3b6ea8", "#8a5fb0", "#c08a1e", "#c05a2b", "#3f8f5f", "#777777", "#222222", "#b0577e", "#1fa3a3")


def draw(path: Path, rows: Sequence[LearnedRow], games: Sequence[StudyGame]) -> None:
    """Write a PNG with one panel per game. Lines are learners, bars are standard deviations, rings are optima.

    Args:
        games: Games, one panel each.

    Raises:
        ImportError: If matplotlib is missing. The message says how to install it.
    """
    figure = figures.blank(5.0 * len(games), 4.4, 130)
    names = list(dict.fromkeys(row.learner for row in rows))
    for axis, game in zip(figure.subplots(1, len(games), squeeze=False)[0], games, strict=True):
        mine = [row for row in rows if row.game == game.name]
        for row in mine:
            number = names.index(row.learner)
            colour, episodes = COLOURS[number % len(COLOURS)], range(1, len(row.mean) + 1)
            # Each learner is shifted a little, so that bars and rings of different learners do not overlap.
            positions = [episode + 0.03 * (number - (len(names) - 1) / 2) for episode in episodes]
            axis.errorbar(
                positions,
                row.mean,
                row.deviation,
                color=colour,
                marker=".",
                linewidth=1.3,
                capsize=2,
                label=row.learner,
            )
            axis.plot(
                positions, row.optimum, color=colour, marker="o", fillstyle="none", linestyle="none", markersize=8
            )
        axis.set_xticks(range(1, len(mine[0].mean) + 1) if mine else [])
        axis.set_xlabel("episode")
        axis.set_ylabel(f"{game.unit} per hand")
        axis.set_title(game.name, fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", color="#e4e4e4", linewidth=0.8)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", fontsize=8, frameon=False, ncols=4)
    figures.save(figure, path)
