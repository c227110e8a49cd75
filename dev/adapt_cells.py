"""Compute the table of candidates for the suite `adapt`, and the rows of its references.

    python -m dev.adapt_cells                   # benchmarks/results/adapt_cells.txt and .json
    python -m dev.adapt_cells --references      # benchmarks/results/adapt.txt, its records, the rows of mage adapt
    python -m dev.adapt_cells --figure          # docs/images/adapt.png

A candidate qualifies if its reachable headroom is at least `RATIO` standard errors of the luck-adjusted score, per
hand, on a panel of the suite's size. The errors are the larger ones of the players `blind` and `myopic`, and exact if
the game can be enumerated. The chosen ones keep the half width of the suite's score within .05.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.__main__ import main as mage
from benchmarks.evaluation.run.agents import make_agent
from benchmarks.evaluation.run.eval_command import measure
from benchmarks.evaluation.run.options import PlayOptions
from benchmarks.evaluation.scoring.estimates import Estimate, stratified_error
from benchmarks.evaluation.suites.adapt import CELLS, EPISODES, META_EPISODES, REFERENCES, AdaptCell
from benchmarks.evaluation.suites.panels import cell_panel
from benchmarks.evaluation.suites.setting import Setting
from benchmarks.evaluation.tables.sentence import share, share_text
from benchmarks.evaluation.tables.summary_table import NOT_KNOWN, number
from benchmarks.exact.adaptation import exact_values, played_in, score_of
from benchmarks.figures import blank, save
from benchmarks.records.record_store import Records
from dev.adapt_errors import score_moments
from dev.adapt_records import FULL_ARCHIVE, STORED, pack
from mage_envs.cli.tables import Block, TextTable, as_text
from mage_envs.files.atomic import write_atomically

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
IMAGE = Path(__file__).parents[1] / "docs" / "images" / "adapt.png"
RATIO = 4
"""Least reachable headroom of a cell, in standard errors."""
PLAYERS = ("blind", "myopic")
"""Players whose standard errors count."""
ROUNDING = 1e-6
"""Standard error that is rounding."""
PANELS = 10
"""Number of panels for a standard error that is no exact one."""


def _cell(game: str, pool: str, hands: int = 1, **options: Any) -> AdaptCell:
    return AdaptCell(game=game, pool=pool, hands=hands, options=options, seed=100)


CANDIDATES: Mapping[str, AdaptCell] = {
    **CELLS,
    "dilemma, 2 rounds": _cell("PrisonersDilemma", "pd/classic", rounds=2),
    "noisy, 3 rounds": _cell("PrisonersDilemma", "pd/classic", rounds=3, noise=0.1),
    "inspection, four": _cell("Inspection", "inspect/four"),
    "rps, biased": _cell("RockPaperScissors", "rps/biased"),
    "rps, strongly biased": _cell("RockPaperScissors", "rps/strongly-biased"),
    "rps, reactive": _cell("RockPaperScissors", "rps/reactive"),
    "kuhn, 1 hand": _cell("KuhnPoker", "kuhn/paper"),
    "kuhn, demo, 1 hand": _cell("KuhnPoker", "kuhn/demo"),
    "kuhn, demo, 2 hands": _cell("KuhnPoker", "kuhn/demo", 2),
    "bargaining, 4 offers": _cell("Bargaining", "bargain/four"),
    "bargaining, 2 offers": _cell("Bargaining", "bargain/four", offers=2),
    "bargaining, 3 offers": _cell("Bargaining", "bargain/four", offers=3),
    "bargaining, 1 hand": _cell("Bargaining", "bargain/mixed", offers=3),
    "leduc, 1 hand": _cell("LeducPoker", "leduc/four"),
    "leduc, 3 hands": _cell("LeducPoker", "leduc/four", 3),
    "leduc, soft": _cell("LeducPoker", "leduc/soft"),
    "encounters, five games": _cell("Encounters", "encounters/all"),
    # Myopic play loses nearly everything in 3% of these meta-episodes. 29% of the panels contain none of them, so their
    # intervals are too narrow.
    "encounters, stag": _cell("Encounters", "encounters/all", games=("stag", "offer", "throw")),
    "encounters, soft": _cell("Encounters", "encounters/soft", games=("chicken", "offer", "throw")),
}


def candidate(name: str, cell: AdaptCell) -> dict[str, Any]:
    """Return the row of a candidate: its exact values, and the errors on a panel of the suite's size."""
    started = time.process_time()
    found = exact_values(cell)
    row: dict[str, Any] = {
        "cell": name,
        "game": cell.game,
        "pool": cell.pool,
        "options": dict(cell.options),
        "hands": cell.hands,
        "chosen": name in CELLS,
        "control": cell.control,
        "blind": found.blind,
        "sum": list(found.per_episode["sum"]),
        "last": found.per_episode["last"][-1],
        "reachable": found.reachable,
        "exploration": found.exploration,
        "error": None,
        "score_error": None,
    }
    if not cell.control:
        # A cell with players of the game's own has no enumerable tree.
        error = _played_error if cell.players else _exact_error
        row["score_error"] = max(error(name, cell, player) for player in PLAYERS)
        row["error"] = row["score_error"] * (sum(row["sum"]) / EPISODES - row["blind"])
    return {**row, "seconds": round(time.process_time() - started, 1)}


def _exact_error(name: str, cell: AdaptCell, player: str) -> float:
    """Return the exact standard error of the score of one of the references."""
    return score_moments(cell, exact_values(cell), player)[1]


def _played_error(name: str, cell: AdaptCell, player: str) -> float:
    """Return the standard error of the score of one of the references, from `PANELS` panels together."""
    spec = cell.agent(player)
    if spec is None:
        raise ValueError(f"{name} has no player {player}.")
    setting = Setting(cell_panel(cell, PANELS * META_EPISODES), name, {"memory": "history"})
    with TemporaryDirectory() as folder:
        options = replace(PlayOptions(), out=Path(folder) / "run", baselines=False)
        measure(options, make_agent(spec), setting, spec)
        played = played_in(Records(Path(folder) / "run"), cell)
    return stratified_error(score_of(name, cell, exact_values(cell), played).shares)[0] * math.sqrt(PANELS)


def _ratio(value: float | None, error: float | None) -> str:
    if value is None or error is None:
        return NOT_KNOWN
    return "exact" if error < ROUNDING else f"{value / error:.1f}"


def candidate_blocks(rows: list[dict[str, Any]]) -> list[Block]:
    """Return the table of the candidates."""
    cells = [
        [
            ("* " if row["chosen"] else "  ") + row["cell"],
            number(row["blind"]),
            number(sum(row["sum"]) / EPISODES),
            *(number(row[key]) for key in ("last", "reachable", "exploration", "error")),
            _ratio(row["reachable"], row["error"]),
            _ratio(row["exploration"], row["error"]),
            NOT_KNOWN if row["score_error"] is None else share(row["score_error"]),
        ]
        for row in rows
    ]
    columns = ["cell", "blind", "sum", "last", "reachable", "exploration", "error", "reach", "explore", "score error"]
    scored = [row["score_error"] for row in rows if row["chosen"] and row["score_error"] is not None]
    half = 1.96 * sum(one**2 for one in scored) ** 0.5 / len(scored)
    return [
        f"Candidates for the suite adapt; *: chosen. Exact values per hand; errors at {META_EPISODES} meta-episodes",
        "",
        TextTable(columns, cells),
        "",
        "sum: mean over the episodes of the optimum for their sum. last: the optimum for the last episode, there.",
        "score error: exact standard error of the luck-adjusted score, the larger one of the players blind and myopic.",
        "error: the same in the game's unit per hand. reach, explore: headroom in errors; exact: no luck is left.",
        "n/a: a negative control. keys: SokobanControls, exact for 48 rooms; its error is from "
        f"{PANELS} panels that were played.",
        f"Half width of the suite's score with these errors: {half:.3f}",
    ]


def candidates() -> None:
    """Write the table of the candidates."""
    rows = []
    for name, cell in CANDIDATES.items():
        rows.append(candidate(name, cell))
        sys.stderr.write(f"{name}: {rows[-1]['seconds']} s\n")
    blocks = candidate_blocks(rows)
    write_atomically(RESULTS / "adapt_cells.json", json.dumps(rows, indent=1) + "\n")
    write_atomically(RESULTS / "adapt_cells.txt", as_text(blocks))
    sys.stdout.write(as_text(blocks))


def references() -> None:
    """Play the references, and write their rows and records."""
    found: dict[str, dict[str, Any]] = {}
    with TemporaryDirectory() as folder:
        for reference in REFERENCES:
            started = time.process_time()
            if status := mage(["adapt", f"policy:{reference}", "--out", f"{folder}/{reference}", "--json"]):
                raise RuntimeError(f"{reference}: mage adapt ended with status {status}.")
            told = json.loads((Path(folder) / reference / "adapt.json").read_text("utf-8"))
            [condition] = told["conditions"].values()
            cells = {one["cell"]: one["score"] or one["last"] for one in condition["cells"]}
            found[reference] = {**cells, "mean": condition["score"]}
            sys.stderr.write(f"{reference}: {time.process_time() - started:.0f} CPU seconds\n")
        pack(Path(folder), FULL_ARCHIVE, REFERENCES)
    write_atomically(STORED, json.dumps(found, indent=1) + "\n")
    blocks = reference_blocks(found)
    write_atomically(RESULTS / "adapt.txt", as_text(blocks))
    sys.stdout.write(as_text(blocks))


def reference_blocks(found: Mapping[str, Mapping[str, Any]]) -> list[Block]:
    """Return the table of the references from their scores by reference and cell."""
    rows = []
    for name in [*CELLS, "mean"]:
        shown = [found.get(one, {}).get(name) for one in REFERENCES]
        rows.append([name, *(NOT_KNOWN if one is None else share_text(Estimate(**one)) for one in shown)])
    return [
        "References of the suite adapt: score of each cell, ± half a 95% interval over meta-episodes",
        "",
        TextTable(["cell", *REFERENCES], rows),
        "",
        "0: the best play without memory. 1: the optimum for all episodes together. Both know the pool, and so do",
        "blind, myopic and bayes; random, nash and counting know the rules alone. The last three cells are negative",
        "controls, with the gain from the first to the last episode. n/a: no such player. The ends of keys are those",
        "of 48 rooms. Learners: adapt_mini.txt.",
    ]


def figure() -> None:
    """Draw what the score means in one cell: the exact learners over the episodes, and the way from 0 to 1."""
    found = exact_values(CELLS["dilemma"])
    shown = blank(6.4, 3.2, what="The figure of the suite adapt")
    axis = shown.add_subplot()
    episodes = range(1, EPISODES + 1)
    blind, best, myopic = found.blind_per_episode, found.per_episode["sum"], found.per_episode["myopic"]
    reached = (sum(myopic) - sum(blind)) / (sum(best) - sum(blind))
    axis.fill_between(episodes, blind, best, color="#4477aa", alpha=0.15, linewidth=0)
    for values, name, colour in (
        (best, "optimum for all episodes: score 1", "#4477aa"),
        (myopic, f"best for each episode by itself: score {share(reached)}", "#228833"),
        (blind, "best play without memory: score 0", "#aa3377"),
    ):
        axis.plot(episodes, values, "o-", color=colour, label=name)
    axis.set_xticks(list(episodes), [f"episode {k}" for k in episodes])
    axis.set_ylabel("points per round")
    axis.set_title("Prisoner's dilemma against one of five hidden opponents", fontsize=10)
    axis.annotate("a loss now ...", (1, best[0]), (1.12, best[0] + 0.01), fontsize=9)
    axis.annotate("... for what it shows", (2, best[1]), (2.05, best[1] - 0.09), fontsize=9)
    axis.legend(fontsize=8, loc="lower right", frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    save(shown, IMAGE)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--references", action="store_true", help="play the references instead")
    parser.add_argument("--figure", action="store_true", help="draw the figure of docs/adaptation.md instead")
    chosen = parser.parse_args()
    if chosen.figure:
        figure()
    else:
        (references if chosen.references else candidates)()
