"""Compute the table of the suite `adapt-learning`, and play its references.

    python -m dev.adapt_learning                # benchmarks/results/adapt_learning_cells.txt
    python -m dev.adapt_learning --references   # benchmarks/results/adapt_learning.txt
    python -m dev.adapt_learning --figure       # docs/images/answering_back.png

A cell qualifies if what a learner can gain by memory, and what the learner `stationary` loses, are at least `RATIO`
standard errors of the luck-adjusted level on a panel of the suite's size, or if that level has no luck left.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dev.adapt_cells import level_text
from dev.adapt_errors import level_moments
from mage_envs.benchmarks.evaluation.suites.adapt import (
    EPISODES,
    LEARNING_CELLS,
    LEARNING_REFERENCES,
    META_EPISODES,
    AdaptCell,
)
from mage_envs.benchmarks.evaluation.tables.summary_table import NOT_KNOWN, number, share
from mage_envs.benchmarks.figures import blank, save
from mage_envs.benchmarks.scale.adaptation import exact_values, scale_of_cell
from mage_envs.benchmarks.scale.scale_text import LEGEND
from mage_envs.cli.program import main as mage
from mage_envs.cli.tables import Block, TextTable, as_text
from mage_envs.files.atomic import write_atomically

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
IMAGE = Path(__file__).parents[1] / "docs" / "images" / "answering_back.png"
RATIO = 4
"""Least headroom of a cell, in standard errors."""
ROUNDING = 1e-6
"""Standard error that is rounding."""


def _cell(game: str, pool: str, **options: Any) -> AdaptCell:
    return AdaptCell(game=game, pool=pool, options=options, seed=300, learns=True)


CANDIDATES: Mapping[str, AdaptCell] = {
    **LEARNING_CELLS,
    "pennies, 2 rounds": _cell("MatchingPennies", "pennies/learners", rounds=2),
    "throws, 1 round": _cell("RockPaperScissors", "rps/learners", rounds=1),
    "grudges, 2 rounds": _cell("PrisonersDilemma", "pd/changing", rounds=2),
    "forgives, 2 rounds": _cell("PrisonersDilemma", "pd/forgiving", rounds=2),
    "turns, 2 rounds": _cell("PrisonersDilemma", "pd/turning", rounds=2),
}


def candidate_row(name: str, cell: AdaptCell) -> list[str]:
    """Return the row of a candidate: its exact values per hand, and its headrooms in standard errors."""
    values, scale = exact_values(cell), scale_of_cell(cell)
    if scale is None or values.second_order is None:
        return [name, *[NOT_KNOWN] * 8]
    level_error = max(level_moments(cell, scale, player)[1] for player in ("blind", "myopic"))
    error = level_error * scale.length / EPISODES
    reachable = scale.length / EPISODES
    means = [
        sum(row) / EPISODES
        for row in (
            values.no_memory_per_episode,
            values.stationary_per_episode,
            values.per_episode["sum"],
            values.known_per_episode,
        )
    ]
    ratios = ["exact" if error < ROUNDING else f"{value / error:.1f}" for value in (reachable, values.second_order)]
    chosen = "* " if name in LEARNING_CELLS else "  "
    return [f"{chosen}{name}", *map(number, (*means, values.second_order)), share(level_error), *ratios]


def candidate_blocks() -> list[Block]:
    """Return the table of the candidates."""
    rows = []
    for name, cell in CANDIDATES.items():
        rows.append(candidate_row(name, cell))
        sys.stderr.write(f"{name}\n")
    columns = ["cell", "no memory", "stationary", "best", "known", "second", "level error", "reach", "second"]
    return [
        f"Candidates for the suite adapt-learning; *: chosen. Exact means of {EPISODES} episodes, per hand",
        "",
        TextTable(columns, rows),
        "",
        "no memory: the best plan of an episode, the same in every one. stationary: optimal if nobody learned or",
        "changed. second: best less stationary. level error: exact standard error of the luck-adjusted level at",
        f"{META_EPISODES} meta-episodes, the larger one of no memory and myopic. reach: best less no memory, and",
        "second, in standard errors; exact: no luck is left.",
    ]


def reference_blocks() -> list[Block]:
    """Play the references, and return their table."""
    columns: dict[str, dict[str, str]] = {}
    with TemporaryDirectory() as folder:
        for reference in LEARNING_REFERENCES:
            out = f"{folder}/{reference}"
            if status := mage(["adapt", f"policy:{reference}", "--suite", "adapt-learning", "--out", out, "--json"]):
                raise RuntimeError(f"{reference}: mage adapt ended with status {status}.")
            content = json.loads((Path(out) / "adapt.json").read_text("utf-8"))
            cells = {cell["cell"]: cell["level"] for cell in content["conditions"][content["main"]]["cells"]}
            scores = {**cells, "mean of families": content["level"]}
            scores |= {f"{name} memory": content["adaptation"][name] for name in ("own", "other")}
            columns[reference] = {
                name: NOT_KNOWN if score is None else level_text(score) for name, score in scores.items()
            }
    names = list(dict.fromkeys(name for column in columns.values() for name in column))
    rows = [[name, *(columns[reference].get(name, NOT_KNOWN) for reference in columns)] for name in names]
    return [
        "References of the suite adapt-learning: level in each cell, ± half a 95% interval over meta-episodes",
        "",
        TextTable(["cell", *columns], rows),
        "",
        *LEGEND,
        "own memory and other memory: the main runs less those without memory, and less those with the memory of",
        "another opponent. n/a: no such player.",
    ]


def figure() -> None:
    """Draw where the learner `stationary` is on the scale of each cell."""
    image = blank(6.4, 3.2, subject="The figure of opponents that answer back")
    axis = image.add_subplot()
    names = list(LEARNING_CELLS)
    levels = []
    for name in names:
        values, scale = exact_values(LEARNING_CELLS[name]), scale_of_cell(LEARNING_CELLS[name])
        if scale is None:
            raise ValueError(f"The cell {name} has no scale.")
        levels.append(scale.level(sum(values.stationary_per_episode)))
    for position, level in enumerate(levels):
        axis.plot([1, level], [position, position], color="#cccccc", linewidth=1.3, zorder=0)
        axis.annotate(share(level), (level, position), (0, 6), textcoords="offset points", ha="center", fontsize=8)
    axis.plot(levels, range(len(names)), "o", color="#aa3377", label="believes that nobody learns or changes")
    axis.axvline(0, color="#222222", linestyle=":", linewidth=1.3, label="no memory: level 0")
    axis.axvline(1, color="#4477aa", linewidth=1.3, label="best learner: level 1")
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.4, -0.8)
    axis.set_xlabel("level")
    axis.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.45, 1.0), ncol=3, frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    save(image, IMAGE)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--references", action="store_true", help="play the references instead")
    parser.add_argument("--figure", action="store_true", help="draw the figure of docs/answering-back.md instead")
    arguments = parser.parse_args()
    if arguments.figure:
        figure()
        sys.exit()
    played = arguments.references
    text = as_text(reference_blocks() if played else candidate_blocks())
    write_atomically(RESULTS / ("adapt_learning.txt" if played else "adapt_learning_cells.txt"), text)
    sys.stdout.write(text)
