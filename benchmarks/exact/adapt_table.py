"""The result of `mage adapt`: one sentence, one table and the negative controls."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from benchmarks.evaluation.suites.rows import POOL
from benchmarks.evaluation.tables.sentence import share, share_text, verdict
from benchmarks.evaluation.tables.summary_table import NOT_KNOWN, number
from benchmarks.exact.adaptation import CellScore, estimate_json, suite_difference, suite_memory, suite_score
from mage_envs.cli.tables import Block, TextTable
from mage_envs.text.visible import one_line

PAIRED = {
    "neutral": "in neutral words",
    "none": "without memory",
    "other": "with the memory of another opponent",
    "same": "with the memory of the same opponent and other deals",
}
"""Controls of `mage adapt --controls`, with their words in the sentence."""
RULES_ALONE = ("counting", "nash")
"""References that know the rules and not the pool, as columns of the table."""


@cache
def reference_rows() -> Mapping[str, Any]:
    """Return the stored scores of the references, by reference and cell (`adapt_references.json`).

    `python -m dev.adapt_cells --references` computes them.
    """
    text = files("benchmarks.evaluation.suites").joinpath("adapt_references.json").read_text("utf-8")
    read: Mapping[str, Any] = json.loads(text)
    return read


@dataclass(frozen=True)
class AdaptResult:
    """Scores of an agent in the suite."""

    suite: str
    agent: str
    planned: int
    """Number of cells of the suite that have a score."""
    conditions: Mapping[str, Sequence[CellScore]]
    """Condition, `described` or `hidden`, to the scores of its cells."""

    @property
    def main(self) -> str:
        """Condition of the headline: the pool described, if it was played."""
        return POOL if POOL in self.conditions else next(iter(self.conditions))

    def sentence(self) -> str:
        """Return the result in one sentence."""
        main = self.conditions[self.main]
        score = suite_score(main)
        if score is None:
            return f"{one_line(self.agent)} played no cell in which memory is worth anything."
        text = f"{verdict(score)}, of which memory {share(suite_memory(main))}"
        for name, cells in self.conditions.items():
            if name != self.main and (other := suite_score(cells)) is not None:
                text += f"; {PAIRED.get(name, 'without a pool description')} {share_text(other)}"
        scored = sum(cell.score is not None for cell in main)
        part = "" if scored == self.planned else f" ({scored} of {self.planned} cells)"
        return f"{one_line(self.agent)} {text}{part}"

    def blocks(self) -> list[Block]:
        """Return the table, the negative controls, the notes and the sentence."""
        names = list(self.conditions)
        rows = []
        cells = {name: {cell.cell: cell for cell in found} for name, found in self.conditions.items()}
        main = cells[self.main]
        for name, cell in main.items():
            if cell.score is not None:
                scores = [share_text(cells[one][name].score if name in cells[one] else None) for one in names]
                stored = [share(_stored(one, name)) for one in RULES_ALONE]
                last = [number(cell.last.mean), number(cell.blind), number(cell.best)]
                rows.append([name, *scores, share(cell.memory), *last, *stored])
        if rows:
            overall = [share_text(suite_score(self.conditions[one])) for one in names]
            means = [share(_stored(one, "mean")) for one in RULES_ALONE] if self.suite == "adapt" else [NOT_KNOWN] * 2
            rows.append(["mean", *overall, share(suite_memory(self.conditions[self.main])), "", "", "", *means])
            rows += [["less " + self.main, *less, *[""] * 6] for less in [self._differences()] if any(less)]
        columns = ["cell", *names, "memory", "last", "blind", "best", *RULES_ALONE]
        controls = [
            [
                name,
                number(cell.last.mean)
                if cell.last.half is None
                else f"{number(cell.last.mean)} ± {cell.last.half:.3f}",
            ]
            for name, cell in main.items()
            if cell.score is None
        ]
        extra: list[Block] = ["", TextTable(["negative control", "gain 1-3"], controls)] if controls else []
        failed = sum(cell.failed for found in self.conditions.values() for cell in found)
        return [
            f"{self.suite}: {one_line(self.agent)}, 3 episodes against one opponent",
            "",
            TextTable(columns, rows),
            *extra,
            "",
            "0: the best play without memory. 1: the optimum for all episodes together. Both know the pool.",
            "memory: the part beyond playing every episode like the first one. last, blind, best: the luck-adjusted",
            "last episode per hand, the best play without memory, and the most that any learner can earn there.",
            "counting, nash: references that know the rules alone. ±: half a 95% interval over meta-episodes.",
            *(
                [f"less {self.main}: mean difference of the same tasks, in the cells that both played."]
                if any(self._differences())
                else []
            ),
            *([f"{failed} meta-episodes failed or are missing; they have no score."] if failed else []),
            "",
            self.sentence(),
        ]

    def _differences(self) -> list[str]:
        """Return the paired difference of each condition from the main one as text, empty for the main one."""
        main = self.conditions[self.main]
        found = [
            None if name == self.main else suite_difference(cells, main) for name, cells in self.conditions.items()
        ]
        return ["" if one is None else share_text(one) for one in found]

    def to_json(self) -> dict[str, Any]:
        """Return all values as JSON values."""
        return {
            "suite": self.suite,
            "agent": self.agent,
            "sentence": self.sentence(),
            "conditions": {
                name: {
                    "score": estimate_json(suite_score(cells)),
                    "memory": suite_memory(cells),
                    "difference": estimate_json(suite_difference(cells, self.conditions[self.main])),
                    "cells": [cell.to_json() for cell in cells],
                }
                for name, cells in self.conditions.items()
            },
        }


def _stored(reference: str, cell: str) -> float | None:
    """Return a stored score, or None if the reference does not play the cell."""
    found = reference_rows().get(reference, {}).get(cell)
    return None if found is None else float(found["mean"])
