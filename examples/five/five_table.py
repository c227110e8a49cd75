"""Table and figure of the five small models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mage_envs.benchmarks import figures
from mage_envs.cli.tables import TextTable

FIGURE = "five.png"
NOTES = """\
Means with half a 95% interval, meta-episodes of one task being a cluster. mini: the saved model on tasks that training
never shows. gain: last episode minus the first, paired. none, other: last episode without memory, and with the memory
of another task. gain, other: the gain with the latter.
"""


@dataclass(frozen=True, kw_only=True)
class PanelScores:
    """Scores of an agent on a panel. Estimates are JSON values of `Estimate`."""

    episodes: Sequence[Mapping[str, Any]]
    gain: Mapping[str, Any]
    unit: str
    panel: str


@dataclass(frozen=True, kw_only=True)
class ModelResult:
    """Scores of a small model, and of the references on the same tasks."""

    environment: str
    seed: int
    cpu_seconds: float | None
    """CPU seconds of the training's last process, with its imitation; None if they were not measured."""
    own: PanelScores
    none: PanelScores
    other: PanelScores
    random: PanelScores
    expert: PanelScores
    expert_name: str


def table(results: Sequence[ModelResult]) -> str:
    """Return the table of all environments with its notes."""
    count = max((len(result.own.episodes) for result in results), default=0)
    head = ["", *(f"episode {k}" for k in range(1, count + 1)), "gain", "none", "other", "gain, other", "CPU min"]
    rows: list[Sequence[str] | str] = []
    for name in dict.fromkeys(result.environment for result in results):
        mine = [result for result in results if result.environment == name]
        rows.append(f"{name}, {mine[0].own.unit}; {mine[0].own.panel}")
        rows.append(_reference("random", mine[0].random))
        for result in mine:
            rows.append(
                [
                    f"mini, seed {result.seed}",
                    *map(_cell, result.own.episodes),
                    _cell(result.own.gain),
                    *(_cell(control.episodes[-1]) for control in (result.none, result.other)),
                    _cell(result.other.gain),
                    "n/a" if result.cpu_seconds is None else f"{result.cpu_seconds / 60:.0f}",
                ]
            )
        rows.append(_reference(f"expert, {mine[0].expert_name.removeprefix('policy:')}", mine[0].expert))
    return f"{TextTable(head, rows)}\n\n{NOTES}"


def _reference(name: str, measured: PanelScores) -> list[str]:
    return [name, *map(_cell, measured.episodes), _cell(measured.gain), "", "", "", ""]


def _cell(estimate: Mapping[str, Any]) -> str:
    mean, low, high = (estimate[key] for key in ("mean", "low", "high"))
    return f"{mean:.2f}" if low is None else f"{mean:.2f} ± {(high - low) / 2:.2f}"


def draw(path: Path, results: Sequence[ModelResult]) -> None:
    """Write a figure with one panel per environment: the score by episode of the models and of the references.

    Args:
        path: File to write.
        results: Results of all environments.

    Raises:
        ImportError: If matplotlib is missing. The message says how to install it.
    """
    names = list(dict.fromkeys(result.environment for result in results))
    figure = figures.blank(3.0 * len(names), 3.6, 130)
    for axis, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        mine = [result for result in results if result.environment == name]
        curves = [
            (mine[0].expert, "expert", "#222222", ":"),
            (mine[0].random, "random", "#999999", ":"),
            *((result.own, "mini", "#3b6ea8", "-") for result in mine),
            *((result.other, "mini, another task's memory", "#c05a2b", "--") for result in mine),
        ]
        for measured, label, colour, dashes in curves:
            means = [estimate["mean"] for estimate in measured.episodes]
            low, high = ([estimate[key] for estimate in measured.episodes] for key in ("low", "high"))
            positions = range(1, len(means) + 1)
            axis.plot(positions, means, color=colour, linestyle=dashes, marker=".", linewidth=1.3, label=label)
            if None not in low:
                axis.fill_between(positions, low, high, color=colour, alpha=0.12, linewidth=0)
        axis.set_xticks(positions)
        axis.set_xlabel("episode")
        axis.set_ylabel(mine[0].own.unit)
        axis.set_title(name, fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", color="#e4e4e4", linewidth=0.8)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    figure.legend(unique.values(), unique.keys(), loc="outside lower center", fontsize=8, frameon=False, ncols=4)
    figures.save(figure, path)
