"""Compute the table of candidates for the suite `adapt`, and the rows of its references.

    python -m dev.adapt_cells                   # benchmarks/results/adapt_cells.txt and .json
    python -m dev.adapt_cells --references      # benchmarks/results/adapt.txt, its records, the rows of mage adapt
    python -m dev.adapt_cells --figure          # docs/images/adapt.png

A candidate qualifies if its reachable headroom is at least `RATIO` standard errors of the luck-adjusted level, per
hand, on a panel of the suite's size. The errors are the larger ones of the players `blind` and `myopic`, and exact if
the game can be enumerated.
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

from dev.adapt_errors import level_moments
from dev.adapt_records import FULL_ARCHIVE, STORED, pack
from mage_envs.benchmarks.evaluation.run.agents import make_agent
from mage_envs.benchmarks.evaluation.run.options import PlayOptions
from mage_envs.benchmarks.evaluation.scoring.estimates import Estimate, Z
from mage_envs.benchmarks.evaluation.suites.adapt import CELLS, EPISODES, META_EPISODES, REFERENCES, AdaptCell
from mage_envs.benchmarks.evaluation.suites.panels import cell_panel
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.evaluation.tables.summary_table import NOT_KNOWN, number, share
from mage_envs.benchmarks.figures import blank, save
from mage_envs.benchmarks.records.record_store import Records
from mage_envs.benchmarks.runs.measuring import measure
from mage_envs.benchmarks.scale.adaptation import exact_values, load_cell_run, scale_of_cell
from mage_envs.benchmarks.scale.scale import Scale, family_weights
from mage_envs.benchmarks.scale.scale_text import LEGEND
from mage_envs.cli.program import main as mage
from mage_envs.cli.tables import Block, TextTable, as_text
from mage_envs.files.atomic import write_atomically

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
IMAGE = Path(__file__).parents[1] / "docs" / "images" / "adapt.png"
RATIO = 4
"""Least reachable headroom of a cell, in standard errors."""
PLAYERS = ("blind", "myopic")
"""Players whose standard errors count."""
NAMES = {"mean": "mean of families", "own": "own memory", "other": "other's memory"}
"""Titles of the rows below the cells."""
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
    start_time = time.process_time()
    values = exact_values(cell)
    row: dict[str, Any] = {
        "cell": name,
        "game": cell.game,
        "pool": cell.pool,
        "options": dict(cell.options),
        "hands": cell.hands,
        "chosen": name in CELLS,
        "control": cell.control,
        "family": cell.family,
        "blind": values.blind,
        "no_memory": values.no_memory,
        "sum": list(values.per_episode["sum"]),
        "last": values.per_episode["last"][-1],
        "reachable": values.reachable,
        "exploration": values.exploration,
        "error": None,
        "level_error": None,
    }
    scale = scale_of_cell(cell)
    if scale is not None:
        # A cell with players of the game's own has no enumerable tree.
        error = _error_by_play if cell.players else _exact_error
        row["level_error"] = max(error(name, cell, scale, player) for player in PLAYERS)
        row["error"] = row["level_error"] * scale.length / cell.hands / EPISODES
    return {**row, "seconds": round(time.process_time() - start_time, 1)}


def _exact_error(name: str, cell: AdaptCell, scale: Scale, player: str) -> float:
    """Return the exact standard error of the level of one of the references."""
    return level_moments(cell, scale, player)[1]


def _error_by_play(name: str, cell: AdaptCell, scale: Scale, player: str) -> float:
    """Return the standard error of the level of one of the references, from `PANELS` panels together."""
    spec = cell.agent(player)
    if spec is None:
        raise ValueError(f"{name} has no player {player}.")
    setting = Setting(cell_panel(cell, PANELS * META_EPISODES), name, {"memory": "history"})
    with TemporaryDirectory() as folder:
        options = replace(PlayOptions(), out=Path(folder) / "run", baselines=False)
        measure(options, make_agent(spec), setting, spec)
        run = load_cell_run(Records(Path(folder) / "run"), cell, scale)
    level = run.level()
    if level is None or level.high is None:
        raise ValueError(f"{name} has no interval.")
    # The upper end has no allowance for losses that were not seen.
    return (level.high - level.mean) / Z * math.sqrt(PANELS)


def _ratio(value: float | None, error: float | None) -> str:
    if value is None or error is None:
        return NOT_KNOWN
    return "exact" if error < ROUNDING else f"{value / error:.1f}"


def candidate_blocks(rows: list[dict[str, Any]]) -> list[Block]:
    """Return the table of the candidates."""
    cells = [
        [
            ("* " if row["chosen"] else "  ") + row["cell"],
            number(row["no_memory"]),
            number(sum(row["sum"]) / EPISODES),
            *(number(row[key]) for key in ("last", "reachable", "exploration", "error")),
            _ratio(row["reachable"], row["error"]),
            _ratio(row["exploration"], row["error"]),
            NOT_KNOWN if row["level_error"] is None else share(row["level_error"]),
        ]
        for row in rows
    ]
    columns = [
        "cell",
        "no memory",
        "sum",
        "last",
        "reachable",
        "exploration",
        "error",
        "reach",
        "explore",
        "level error",
    ]
    scored = {row["cell"]: row for row in rows if row["chosen"] and row["level_error"] is not None}
    weights = family_weights({name: row["family"] for name, row in scored.items()})
    half = Z * sum((weights[name] * row["level_error"]) ** 2 for name, row in scored.items()) ** 0.5
    return [
        f"Candidates for the suite adapt; *: chosen. Exact values per hand; errors at {META_EPISODES} meta-episodes",
        "",
        TextTable(columns, cells),
        "",
        "sum: mean over the episodes of the optimum for their sum. last: the optimum for the last episode, there.",
        "no memory: the optimum of one episode. level error: exact standard error of the luck-adjusted level, the",
        "larger one of the players blind (which forgets even the hands of its episode) and myopic.",
        "error: the same in the game's unit per hand. reach, explore: headroom in errors; exact: no luck is left.",
        "n/a: a negative control. keys: SokobanControls, exact for 48 rooms; its error is from "
        f"{PANELS} panels that were played.",
        f"Half width of the mean over families with these errors: {half:.3f}",
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
    scores: dict[str, dict[str, Any]] = {}
    with TemporaryDirectory() as folder:
        for reference in REFERENCES:
            start_time = time.process_time()
            if status := mage(["adapt", f"policy:{reference}", "--out", f"{folder}/{reference}", "--json"]):
                raise RuntimeError(f"{reference}: mage adapt ended with status {status}.")
            content = json.loads((Path(folder) / reference / "adapt.json").read_text("utf-8"))
            condition = content["conditions"][content["main"]]
            cells = {cell["cell"]: cell["level"] or _gain(cell["gain"]) for cell in condition["cells"]}
            scores[reference] = {**cells, "mean": content["level"], "own": content["adaptation"]["own"]}
            scores[reference]["other"] = content["adaptation"]["other"]
            sys.stderr.write(f"{reference}: {time.process_time() - start_time:.0f} CPU seconds\n")
        pack(Path(folder), FULL_ARCHIVE, REFERENCES)
    write_atomically(STORED, json.dumps(scores, indent=1) + "\n")
    blocks = reference_blocks(scores)
    write_atomically(RESULTS / "adapt.txt", as_text(blocks))
    sys.stdout.write(as_text(blocks))


def _gain(gain: list[float | None]) -> dict[str, Any]:
    """Return the gain of a negative control in the form of a level."""
    mean, low, high = gain
    return {"mean": mean, "low": low, "high": high}


def reference_blocks(scores: Mapping[str, Mapping[str, Any]]) -> list[Block]:
    """Return the table of the references from their scores by reference and cell."""
    rows = []
    for name in [*CELLS, "mean", "own", "other"]:
        levels = [scores.get(reference, {}).get(name) for reference in REFERENCES]
        rows.append([NAMES.get(name, name), *(NOT_KNOWN if level is None else level_text(level) for level in levels)])
    return [
        "References of the suite adapt: level in each cell, ± half a 95% interval over meta-episodes",
        "",
        TextTable(["cell", *REFERENCES], rows),
        "",
        *LEGEND,
        "The mean is that of families, and a cell counts at least -1. no-memory, myopic and bayes know the pool;",
        "random, nash and counting know the rules alone. The last three cells are negative controls, with the gain",
        "from the first to the last episode. n/a: no such player. The lines of keys are those of 48 rooms.",
    ]


def level_text(level: Mapping[str, Any]) -> str:
    """Return a stored level as text."""
    estimate = Estimate(level["mean"], level["low"], level["high"], level.get("n", 0))
    return share(estimate.mean) if estimate.half is None else f"{share(estimate.mean)} ± {share(estimate.half)}"


def figure() -> None:
    """Draw what the score means in one cell: the exact learners over the episodes, and the way from 0 to 1."""
    exact = exact_values(CELLS["dilemma"])
    image = blank(6.4, 3.2, subject="The figure of the suite adapt")
    axis = image.add_subplot()
    episodes = range(1, EPISODES + 1)
    forgets, best, myopic = exact.no_memory_per_episode, exact.per_episode["sum"], exact.per_episode["myopic"]
    reached = (sum(myopic) - sum(forgets)) / (sum(best) - sum(forgets))
    axis.fill_between(episodes, forgets, best, color="#4477aa", alpha=0.15, linewidth=0)
    for values, name, colour in (
        (best, "best learner: level 1", "#4477aa"),
        (myopic, f"best for each episode by itself: level {share(reached)}", "#228833"),
        (forgets, "no memory: level 0", "#aa3377"),
    ):
        axis.plot(episodes, values, "o-", color=colour, label=name)
    axis.set_xticks(list(episodes), [f"episode {k}" for k in episodes])
    axis.set_ylabel("points per round")
    axis.set_title("Prisoner's dilemma against one of five hidden opponents", fontsize=10)
    axis.annotate("a loss now ...", (1, best[0]), (1.12, best[0] + 0.01), fontsize=9)
    axis.annotate("... for what it shows", (2, best[1]), (2.05, best[1] - 0.09), fontsize=9)
    axis.legend(fontsize=8, loc="lower right", frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    save(image, IMAGE)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--references", action="store_true", help="play the references instead")
    parser.add_argument("--figure", action="store_true", help="draw the figure of docs/adaptation.md instead")
    arguments = parser.parse_args()
    if arguments.figure:
        figure()
    else:
        (references if arguments.references else candidates)()
