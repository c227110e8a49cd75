"""Figures of a game's headroom: the value of each learner by episode."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mage_envs.benchmarks import figures
from mage_envs.opponents.exact import Headroom
from mage_envs.opponents.exact.headroom import CREDITS

MIN_HEADROOM = 1e-3
"""Distance of both lines below which a game is not drawn, because shares of it are not meaningful."""

_STYLES = {
    "myopic": ("#3b6ea8", "o"),
    "sum": ("#8a5fb0", "s"),
    "mage": ("#c05a2b", "^"),
    "last": ("#3f8f5f", "D"),
    "own": ("#777777", "x"),
}
"""Colour and marker of each learner's curve."""


def draw(path: Path, headroom: Headroom, title: str, unit: str) -> None:
    """Draw the curves of the learners between the lines of no memory and of the learner that knows the opponent.

    Args:
        unit: Unit of the values, per hand.

    Raises:
        ImportError: If matplotlib is not installed.
    """
    figure = figures.blank(6.4, 4.0)
    axis = figure.subplots()
    # Without a solution, the least that is known is the play without memory of earlier hands.
    floor = (
        ("no memory", headroom.no_memory_per_episode)
        if headroom.no_memory_per_episode
        else ("blind", headroom.blind_per_episode)
    )
    lines = [(("knows the opponent", headroom.known_per_episode), "--"), (floor, ":")]
    if headroom.stationary_per_episode:
        lines.append((("stationary", headroom.stationary_per_episode), "-."))
    for (name, values), line in lines:
        if not values:
            continue
        # The value is the same in every episode unless an opponent changes between episodes.
        if len(set(values)) == 1:
            axis.axhline(values[-1], color="#222222", linestyle=line, linewidth=1.3, label=name)
        else:
            axis.plot(range(1, len(values) + 1), values, color="#222222", linestyle=line, linewidth=1.3, label=name)
    for name, values in headroom.per_episode.items():
        colour, marker = _STYLES[name]
        label = f"mage, gt {headroom.gt:g}" if name == "mage" else name
        axis.plot(range(1, len(values) + 1), values, color=colour, marker=marker, markersize=5, label=label)
        axis.set_xticks(range(1, len(values) + 1))
    axis.set_xlabel("episode")
    axis.set_ylabel(f"{unit} per hand")
    axis.set_title(title, fontsize=8)
    figures.finish(figure, axis, "y", 4)
    figures.save(figure, path)


def draw_table(path: Path, rows: Sequence[tuple[str, Headroom]]) -> None:
    """Draw many games: where each learner is in the last episode, between no memory and knowing the opponent.

    Games in which knowing the opponent is worth nothing beyond this, or whose learners were not solved exactly, are
    left out.

    Raises:
        ImportError: If matplotlib is not installed.
    """
    drawn_rows = [
        (name, headroom, headroom.no_memory)
        for name, headroom in rows
        if headroom.exact and headroom.no_memory is not None and headroom.known - headroom.no_memory > MIN_HEADROOM
    ]
    figure = figures.blank(7.6, 1.2 + 0.27 * len(drawn_rows))
    axis = figure.subplots()
    for credit in CREDITS:
        colour, marker = _STYLES[credit]
        shares = [
            (headroom.per_episode[credit][-1] - floor) / (headroom.known - floor) for _, headroom, floor in drawn_rows
        ]
        axis.plot(shares, range(len(drawn_rows)), linestyle="", color=colour, marker=marker, markersize=5, label=credit)
    labels = [f"{name}  {headroom.known - floor:.3f}" for name, headroom, floor in drawn_rows]
    axis.set_yticks(range(len(drawn_rows)), labels, fontsize=7)
    axis.invert_yaxis()
    axis.axvline(0, color="#222222", linestyle=":", linewidth=1.3, label="no memory")
    axis.axvline(1, color="#222222", linestyle="--", linewidth=1.3, label="knows the opponent")
    axis.set_xlabel(
        "last episode, from no memory (0) to knowing the opponent (1);\nbeside the name, their distance", fontsize=8
    )
    figures.finish(figure, axis, "both", 6)
    figures.save(figure, path)
