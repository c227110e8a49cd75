"""The table of a paper's evaluation: ours, the paper's, the ceiling, the baseline, and one mark for each cell."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from mage_envs.benchmarks.evaluation.scoring.estimates import Estimate
from mage_envs.benchmarks.evaluation.scoring.scores import Summary
from mage_envs.benchmarks.evaluation.suites.paper import find_released_panel, load_reported_scores
from mage_envs.benchmarks.evaluation.tables import summary_table
from mage_envs.benchmarks.evaluation.tables.summary_table import NOT_KNOWN
from mage_envs.benchmarks.paper.stages import Stage, stages_of, suite_of
from mage_envs.benchmarks.records.record_store import RUN, read_about
from mage_envs.benchmarks.suites.planning import short_names
from mage_envs.cli.tables import Block, TextTable

Measure = Literal["success rate", "draw rate"]
SUCCESS: Measure = "success rate"
DRAWS: Measure = "draw rate"
KINDS: tuple[Literal["ceiling"], Literal["baseline"]] = ("ceiling", "baseline")
SOKOBAN = "paper-sokoban-"
"""Beginning of the panels whose rooms come from our generator."""
EVALUATIONS = "evaluate"
"""Folder of the evaluations below that of all stages."""
SAME, OTHER, UNREACHABLE, TRIAL = "comparable", "other data", "unreachable here", "trial"
MARKS: Mapping[str, str] = {
    SAME: "the tasks and options of the released evaluation, as far as they are known",
    OTHER: "generated tasks in place of the paper's, so that the two figures differ in their tasks, too",
    UNREACHABLE: "the paper's figure is above the ceiling of these tasks: no agent can reach it on them",
}
"""Mark of a cell to its meaning."""
UNKNOWN = (
    "ReAct, Reflexion, A-MEM and Memento are named without settings: no prompts, number of notes or cases, encoder, or "
    "definition of a note in a game. The released code does not contain them. Ours are readings of their own papers.",
    "Table 1 states no K. The text calls ALFWorld's score Pass@10 and has WebShop at 100% by the 5th episode, so K is "
    "10 here.",
    "Each figure is one run of 128 meta-episodes, without a seed or an interval. Its standard error is about .04 at "
    "mid-range.",
    "The tasks are drawn anew in each run: deals, rooms and goals of the paper are not known. A figure in Kuhn Poker "
    "depends on the cards of its 128 deals.",
    "The seat against CFR: the code's default is the first, the released script sets the second. The paper's figure is "
    "beside the second.",
    "The weights of the skewed population, the goals of WebShop out of distribution, and the lengths of the replies.",
    "The sampling in training: Table 2 lists temperature .7, top-p .8 and top-k 20 there. The presets train at "
    "temperature 1.",
)
"""What remains unknown about the paper's figures."""


@dataclass(frozen=True)
class ReferenceResult:
    """Result of a reference agent on all tasks of a panel."""

    agent: str
    count: int
    """Meta-episodes with the outcome."""
    of: int

    @property
    def share(self) -> float:
        return self.count / self.of


@dataclass(frozen=True)
class PaperCell:
    """One method on one panel."""

    panel: str
    method: str
    measure: Measure
    ours: Estimate | None
    paper: float | None
    ceiling: ReferenceResult | None
    baseline: ReferenceResult | None
    mark: str

    def texts(self) -> list[str]:
        """Return ours, the paper's, the ceiling, the baseline and the mark as text, shares with three digits."""
        ours = NOT_KNOWN if self.ours is None else _share(self.ours.mean)
        if self.ours is not None and self.ours.low is not None and self.ours.high is not None:
            ours += f" [{_share(self.ours.low)}, {_share(self.ours.high)}]"
        shares = [None if result is None else result.share for result in (self.ceiling, self.baseline)]
        return [ours, *(NOT_KNOWN if share is None else _share(share) for share in (self.paper, *shares)), self.mark]


def _share(value: float) -> str:
    return f"{value:.3f}"


@cache
def references() -> dict[str, dict[str, Any]]:
    """Return the stored reference results: panel to `played` (name of the tasks), and measure to two references."""
    text = files("mage_envs.benchmarks.paper").joinpath("references.json").read_text("utf-8")
    stored: dict[str, dict[str, Any]] = json.loads(text)
    return stored


def reference(panel: str, measure: Measure, kind: Literal["ceiling", "baseline"]) -> ReferenceResult | None:
    """Return a stored reference result, or None if there is none for the panel."""
    fields = references().get(panel, {}).get(measure, {}).get(kind)
    return None if fields is None else ReferenceResult(**fields)


def paper_value(panel: str, method: str, measure: Measure) -> float | None:
    """Return the paper's figure, or None if it has none."""
    for table in load_reported_scores()["tables"]:
        if table["measure"] == measure and panel in table["panels"] and method in table["rows"]:
            value: float = table["rows"][method][table["panels"].index(panel)]
            return value
    return None


def cells_of(name: str, out: Path | None) -> list[PaperCell]:
    """Return the cells of a table, panel by panel.

    Args:
        out: Folder of the stages, or None if nothing was run.
    """
    shorts = short_names(suite_of(name))
    cells = []
    for stage in stages_of(name):
        if not stage.panel:
            continue
        folder = None if out is None else _run_folder(out, shorts[stage.panel], stage.method)
        for measure in measures_of(stage.panel):
            cells.append(_cell(stage, measure, folder))
    return cells


def measures_of(panel: str) -> Sequence[Measure]:
    """Return the measures of a panel. The paper reports draws against the opponent that is hardly ever beaten."""
    return (DRAWS, SUCCESS) if panel == "paper-tictactoe-mcts1000" else (SUCCESS,)


def _run_folder(out: Path, short: str, method: str) -> Path | None:
    """Return the folder of an evaluation that has scores, or None."""
    paths = sorted((out / EVALUATIONS).glob(f"{short}-k*/{method}/{RUN}")) + sorted(
        (out / EVALUATIONS).glob(f"{short}/{method}/{RUN}")
    )
    return paths[0].parent if paths else None


def _cell(stage: Stage, measure: Measure, folder: Path | None) -> PaperCell:
    ours, trial = None, False
    if folder is not None:
        about = read_about(folder)
        options = about["setting"]["options"]
        released_panel = find_released_panel(
            about["setting"]["name"], about["fingerprint"], options["memory"], options["context"]
        )
        # Next to any other run, such as a trial or one on generated games, the paper's figure has no place.
        trial = released_panel != stage.panel
        ours = value_of(summary_table.load(folder), measure)
    paper = None if trial else paper_value(stage.panel, stage.method, measure)
    generated = is_generated(stage.panel)
    # Beside a run on the original data, references on generated tasks say nothing.
    has_references = not generated or stage.panel.startswith(SOKOBAN) or folder is None
    ceiling, baseline = (reference(stage.panel, measure, kind) if has_references else None for kind in KINDS)
    mark = TRIAL if trial else mark_of(stage.panel, measure, paper, ceiling, generated=generated and has_references)
    return PaperCell(
        panel=stage.panel,
        method=stage.method,
        measure=measure,
        ours=ours,
        paper=paper,
        ceiling=ceiling,
        baseline=baseline,
        mark=mark,
    )


def value_of(summary: Summary, measure: Measure) -> Estimate | None:
    """Return a measure of a run: successes within all episodes, or draws in the last one (without an interval)."""
    row = summary.overall
    if measure == SUCCESS:
        return row.pass_at[-1] if row.pass_at else None
    return Estimate(row.episodes[-1].draws, None, None, row.meta_episodes) if row.episodes else None


def is_generated(panel: str) -> bool:
    """Return True if the references of a panel were played on generated tasks in place of the paper's data."""
    task_panel: str = references()[panel]["played"] if panel in references() else panel
    return panel.startswith(SOKOBAN) or task_panel.rpartition("-")[0] != panel


def mark_of(
    panel: str, measure: Measure, paper: float | None, ceiling: ReferenceResult | None, *, generated: bool
) -> str:
    """Return the mark of a cell.

    Args:
        paper: The paper's figure, or None.
        ceiling: Result of perfect play, or None.
        generated: True if what stands beside the paper's figure was played on generated tasks.
    """
    if generated:
        return OTHER
    # A draw is not what perfect play looks for, so its result bounds nothing.
    if measure == SUCCESS and paper is not None and ceiling is not None and paper > ceiling.share:
        return UNREACHABLE
    return SAME


def text_blocks(name: str, out: Path | None) -> list[Block]:
    """Return the table for a terminal, with the marks and what is unknown below it."""
    rows = [[cell.panel, cell.method, cell.measure.split()[0], *cell.texts()] for cell in cells_of(name, out)]
    head = ["panel", "method", "measure", "ours", "paper", "ceiling", "baseline", "mark"]
    return [
        TextTable(head, rows, text=(0, 1, 2, 7)),
        "",
        *(f"{mark}: {meaning}" for mark, meaning in MARKS.items()),
        f"{TRIAL}: other tasks or options than the panel's, so that the paper's figure is not shown",
        "",
        "Unknown:",
        *(f"* {text}" for text in UNKNOWN),
    ]
