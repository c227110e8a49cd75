"""How often `mage verify --challenge` tells players apart, in each cell of the suite `adapt` with exact decisions.

    python -m dev.attest_power      # benchmarks/results/attest_power.txt, in two CPU hours

A stored run of the best learner is challenged with another player behind it, and each player with itself. A challenge
has as many meta-episodes per opponent and seat as that of `mage verify --challenge`, and seeds of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dev.adapt_coverage import ADJUSTED, levels_on
from mage_envs.benchmarks.comparison.attest import ROWS, ComparedMean, compare_means, level_mean
from mage_envs.benchmarks.evaluation.suites.adapt import CELLS, META_EPISODES
from mage_envs.benchmarks.evaluation.suites.panels import Panel, cell_panel
from mage_envs.cli.tables import TextTable, as_text
from mage_envs.files.atomic import write_atomically

TABLE = Path(__file__).parents[1] / "benchmarks" / "results" / "attest_power.txt"
PLAYERS = ("bayes", "myopic", "no-memory", "random")
CHALLENGES = 100
STORED_SEED, CHALLENGE_SEED, APART = 1 << 40, 1 << 41, 1 << 20
"""First seeds of the stored runs and of the challenges, far from those of the suite, and their distance."""


def levels_of(name: str, panel: Panel) -> Mapping[str, Sequence[ComparedMean]]:
    """Return the levels of each player on panels of a cell that differ in their seeds."""
    panels = [replace(panel, seed=panel.seed + APART * number).tasks() for number in range(CHALLENGES)]
    levels = {}
    for player in PLAYERS:
        spec = CELLS[name].agent(player)
        if spec is None:
            raise ValueError(f"{player} does not play {name}.")
        means = [level_mean(level) for level in levels_on(name, spec, panels)]
        levels[player] = [mean for mean in means if mean is not None]
    return levels


def count_agreements(stored: Sequence[ComparedMean], challenges: Sequence[ComparedMean]) -> int:
    """Return how many challenges agree with the stored run before them."""
    return sum(
        compare_means(stored_mean, challenge_mean)[1]
        for stored_mean, challenge_mean in zip(stored, challenges, strict=True)
    )


def row_of(name: str) -> list[str]:
    """Return the numbers of passed challenges in a cell."""
    panel = cell_panel(CELLS[name], META_EPISODES)
    stored = levels_of(name, replace(panel, seed=STORED_SEED))
    challenge = replace(panel, seed=CHALLENGE_SEED, rows_per_cell=ROWS, size=0)
    challenges = levels_of(name, challenge)
    honest = [count_agreements(stored[player], challenges[player]) for player in PLAYERS]
    as_best = [count_agreements(stored["bayes"], challenges[player]) for player in PLAYERS[2:]]
    return [name, *map(str, [*honest, *as_best])]


def main() -> None:
    columns = ["cell", *PLAYERS, *(f"{player} as bayes" for player in PLAYERS[2:])]
    rows = []
    for name in ADJUSTED:
        rows.append(row_of(name))
        sys.stderr.write(" ".join(rows[-1]) + "\n")
    text = (
        f"Challenges of mage verify that agree, of {CHALLENGES} in each cell, with {ROWS} meta-episodes per opponent\n"
    )
    text += "and seat. A player against its own stored run, and another player against that of bayes.\n\n"
    write_atomically(TABLE, text + as_text([TextTable(columns, rows)]) + "\n")


if __name__ == "__main__":
    main()
