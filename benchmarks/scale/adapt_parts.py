"""`mage adapt --elicit`: the parts of the regret in each cell, from beliefs that the agent states between episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mage_envs.benchmarks.evaluation.run.elicitation import add_question
from mage_envs.benchmarks.evaluation.suites.adapt import ALL_CELLS, AdaptCell
from mage_envs.benchmarks.exact.regret import Horizon, regret_of_run
from mage_envs.benchmarks.exact.regret_parts import RegretParts, part_rows
from mage_envs.benchmarks.records.record_store import Records
from mage_envs.benchmarks.scale.adaptation import ScaledRun
from mage_envs.benchmarks.suites.planning import PlannedRun
from mage_envs.cli.tables import Block, TextTable
from mage_envs.registry import make_game
from mage_envs.related import Related

CellParts = Mapping[str, RegretParts | None]
"""Cell to its parts; None if its decisions have no parts, or if a meta-episode lacks an episode."""


def has_parts(cell: AdaptCell) -> bool:
    """Return True if the decisions of a cell have parts."""
    game = make_game(cell.game, **cell.options)
    # A game with exact prices of its own has none under another belief than the posterior.
    return not cell.control and not (isinstance(game, Related) and game.solver)


def add_questions(runs: Sequence[PlannedRun], condition: str) -> list[PlannedRun]:
    """Return the runs, with the question for the opponent in those of a condition whose decisions have parts.

    Raises ValueError if the agent is a policy without a belief.
    """
    return [
        replace(run, setting=add_question(run.setting, run.agent))
        if run.row.name == condition and has_parts(ALL_CELLS[run.panel])
        else run
        for run in runs
    ]


def read_parts(runs: Sequence[PlannedRun], folder: Path, condition: str) -> dict[str, RegretParts | None]:
    """Return the parts of each played cell of a condition.

    Args:
        runs: Runs of the suite.
        folder: Folder of the suite.
        condition: Condition that was played with questions.
    """
    return {
        run.panel: regret_of_run(Records(folder / run.folder), horizon=Horizon("sum")).parts
        if has_parts(ALL_CELLS[run.panel])
        else None
        for run in runs
        if run.row.name == condition and not ALL_CELLS[run.panel].control
    }


def parts_blocks(cells: CellParts, runs: Mapping[str, ScaledRun]) -> list[Block]:
    """Return the parts of each cell as a table and notes, in units of the scale.

    Args:
        cells: Parts of each cell; nothing is returned if there is none.
        runs: Runs of the same cells.
    """
    rows, left_out, answers, valid = list[list[str]](), list[str](), 0, 0
    for name, parts in cells.items():
        scale = runs[name].scale
        if parts is None or scale is None:
            left_out.append(name)
            continue
        lines = part_rows(parts, scale.length / scale.hands)
        rows += [[name if index == 0 else "", *line] for index, line in enumerate(lines)]
        answers, valid = answers + parts.answers, valid + parts.valid
    if not cells:
        return []
    missing = [f"No parts (n/a): {', '.join(left_out)}."] if left_out else []
    return [
        "",
        TextTable(["cell", "part of 1 - level", "all", "ep 1", "ep 2", "ep 3"], rows),
        f"{valid} of {answers} answers state probabilities. The parts add up to the regret, which is 1 - level of the",
        "meta-episodes that did not fail, without the price of answers that name no action. inference: a wrong belief;",
        "exploration: too little or too much of it under the own belief; decision: other play than the best under the",
        "own belief. Acts against own belief: what the play loses if the reported belief is right.",
        *missing,
    ]
