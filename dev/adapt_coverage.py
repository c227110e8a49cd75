"""Coverage of the suite's interval: how often it contains the exact score, on many panels that differ in their seeds.

    python -m dev.adapt_coverage    # benchmarks/results/adapt_coverage.txt, in 40 CPU minutes

The cells are those with a luck-adjusted score, besides `keys`. If the score of a reference has no luck in a cell, that
is, if its exact standard error is 0, one panel serves all seeds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.evaluation.run.agents import GeneratorAgent, make_agent
from benchmarks.evaluation.run.evaluate import evaluate
from benchmarks.evaluation.suites.adapt import CELLS, META_EPISODES
from benchmarks.evaluation.suites.panels import cell_panel
from benchmarks.exact.adaptation import CellScore, CellValues, exact_values, score_of, suite_score
from benchmarks.exact.recorded_generator import WatchedGenerator
from dev.adapt_errors import score_moments
from mage_envs.cli.tables import Block, TextTable, as_text
from mage_envs.files.atomic import write_atomically
from mage_envs.registry import make_game

TABLE = Path(__file__).parents[1] / "benchmarks" / "results" / "adapt_coverage.txt"
ADJUSTED = tuple(name for name, cell in CELLS.items() if not cell.control and not cell.players)
"""Cells with a luck-adjusted score whose ends are exact for all deals; those of `keys` are means over a sample."""
SEEDS = {"blind": 200, "myopic": 400, "bayes": 200}
"""Reference to the number of its panels. Those of `myopic` are more, because its coverage is nearest to the limit."""
ROUNDING = 1e-6
"""Largest standard error, and distance of an interval from the exact score, that is rounding."""


class Coverage(NamedTuple):
    """How often the intervals of a reference contain its exact score."""

    reference: str
    truth: float
    """Exact score, the mean over the cells."""
    covered: int
    seeds: int
    half: float
    """Mean half width of the intervals."""
    luck: int
    """Number of cells in which the score differs between panels."""


def repeated(name: str, reference: str, seeds: int) -> list[CellScore]:
    """Return the scores of a reference on many panels of a cell that differ in their seeds."""
    cell = CELLS[name]
    panel = cell_panel(cell, META_EPISODES)
    size = len(panel.tasks())
    # A panel that is `seeds` times as long consists of that many panels, because no seed occurs twice.
    tasks = replace(panel, size=size * seeds).tasks()
    options = {**panel.env_kwargs, "memory": "none"}
    values = CellValues(panel.env_id, options, panel.weights())
    found, scores = exact_values(cell), []
    spec = cell.agent(reference)
    if spec is None:
        raise ValueError(f"{name} has no player {reference}.")
    agent, game = make_agent(spec), make_game(cell.game, **cell.options)
    for at in range(0, len(tasks), size):
        watched = WatchedGenerator.of(agent, game, scored=False)
        played = evaluate(GeneratorAgent(watched, agent.name), tasks[at : at + size], options, batch=size)
        judged = [values.of(trajectory, watched.seen[slot, 0]) for slot, trajectory in enumerate(played)]
        scores.append(score_of(name, cell, found, judged))
    return scores


def covered(scores: Sequence[Sequence[CellScore]], truth: float) -> tuple[int, float]:
    """Return how many of the suite's intervals contain the exact score, and the mean half width."""
    suites = [suite_score(cells) for cells in scores]
    ends = [(one.low, one.high) for one in suites if one is not None and one.low is not None and one.high is not None]
    if len(ends) < len(scores):
        raise ValueError("A panel has no interval.")
    count = sum(low - ROUNDING <= truth <= high + ROUNDING for low, high in ends)
    return count, float(np.mean([(high - low) / 2 for low, high in ends]))


def exact_score(name: str, reference: str) -> tuple[float, float]:
    """Return the exact score of `blind`, `myopic` or `bayes` in a cell, and its standard error on one panel."""
    # Every decision of the optimum for the sum has the regret 0.
    return (1.0, 0.0) if reference == "bayes" else score_moments(CELLS[name], exact_values(CELLS[name]), reference)


def coverage(reference: str, seeds: int, names: Sequence[str] = ADJUSTED) -> Coverage:
    """Return the coverage of the mean of cells.

    Args:
        reference: `blind`, `myopic` or `bayes`.
        seeds: Number of panels of each cell.
        names: Cells.
    """
    exact = {name: exact_score(name, reference) for name in names}
    luck = {name: error > ROUNDING for name, (_, error) in exact.items()}
    played = {name: repeated(name, reference, seeds if luck[name] else 1) for name in names}
    scores = [[played[name][seed if luck[name] else 0] for name in names] for seed in range(seeds)]
    truth = float(np.mean([score for score, _ in exact.values()]))
    count, half = covered(scores, truth)
    return Coverage(reference=reference, truth=truth, covered=count, seeds=seeds, half=half, luck=sum(luck.values()))


def table_of(found: Sequence[Coverage]) -> list[Block]:
    """Return the table of the coverages."""
    rows = [
        [one.reference, f"{one.truth:.3f}", f"{one.covered} of {one.seeds}", f"{one.half:.3f}", str(one.luck)]
        for one in found
    ]
    return [
        f"Coverage of the 95% interval of the mean of {len(ADJUSTED)} cells, all with a luck-adjusted score,",
        f"on panels of {META_EPISODES} meta-episodes per cell that differ in their seeds",
        "",
        TextTable(["agent", "score", "covered", "error", "cells"], rows),
        "",
        "score: the exact one. covered: intervals that contain it. error: mean half width of the intervals.",
        "cells: those in which the score has luck, by its exact standard error. One panel serves all seeds elsewhere.",
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    blocks = table_of([coverage(name, seeds) for name, seeds in SEEDS.items()])
    write_atomically(TABLE, as_text(blocks))
    sys.stdout.write(as_text(blocks))
