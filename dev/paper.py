"""docs/paper.md: the paper's figures beside ours. `python -m dev.paper` rewrites the page from data.

The data are `benchmarks/evaluation/suites/reported.json` (the paper's figures), `benchmarks/paper/references.json`
(ceilings and baselines) and `benchmarks/results/paper.json` (our runs, and the costs of all stages). `--measure` plays
the references again, of all panels or of the named ones, and `--costs` computes the costs. `--runs FOLDER` reads our
runs from the folder of `mage paper table1`, and `--mini FOLDER` plays the small models of `python -m examples.five`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mage_envs.benchmarks.evaluation.run.agents import make_agent, saved_options
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate
from mage_envs.benchmarks.evaluation.run.summary import summary_of
from mage_envs.benchmarks.evaluation.scoring.estimates import Estimate
from mage_envs.benchmarks.evaluation.suites.panels import named_panel
from mage_envs.benchmarks.evaluation.suites.paper import setting_for
from mage_envs.benchmarks.evaluation.suites.released import RELEASED, SIZE
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.evaluation.tables.markup import markdown
from mage_envs.benchmarks.evaluation.tables.summary_table import NOT_KNOWN
from mage_envs.benchmarks.paper.costs import MEAN_REPLY, cost_of
from mage_envs.benchmarks.paper.results import (
    DRAWS,
    MARKS,
    SUCCESS,
    UNKNOWN,
    PaperCell,
    cells_of,
    measures_of,
    value_of,
)
from mage_envs.benchmarks.paper.stages import stages_of, suite_of
from mage_envs.game_record import RECORDS
from mage_envs.trainer.config.hardware import hardware
from mage_envs.wrappers.rollout.trajectory import Trajectory

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "paper.md"
REFERENCES = ROOT / "benchmarks" / "paper" / "references.json"
RESULTS = ROOT / "benchmarks" / "results" / "paper.json"
HARDWARE = "8x80gb"
TABLES = ("table1", "ood")
AGENTS = {
    "TicTacToe": ("policy:minimax", "scripted:random"),
    "KuhnPoker": ("policy:kuhn/maniac", "scripted:random"),
    "Sokoban": ("policy:sokoban/expert", "scripted:random"),
    "ALFWorld": ("policy:alfworld/expert", "scripted:random"),
    "WebShop": ("policy:webshop/oracle", "policy:webshop/next"),
}
"""Game to the agents of ceiling and baseline: perfect play, and the best play that reads no text."""


def reference_setting(panel: str) -> Setting:
    """Return the setting of the references: the panel's own tasks, or generated ones if the data are absent."""
    panel_entry = named_panel(panel)
    options = {**panel_entry.defaults, "memory": "none"}
    return setting_for(f"{panel_entry.stand_in or panel}-{SIZE}", **options)


def outcome_counts(trajectories: Sequence[Trajectory]) -> dict[str, int]:
    """Return the meta-episodes with a success, and those with a draw in their last planned episode."""
    last_episodes = [
        trajectory.episodes[-1] for trajectory in trajectories if len(trajectory.episodes) == trajectory.num_episodes
    ]
    return {
        SUCCESS: sum(any(episode.success for episode in trajectory.episodes) for trajectory in trajectories),
        DRAWS: sum(episode.is_draw for episode in last_episodes),
        "whole": len(last_episodes),
    }


def measure_references(panels: Sequence[str]) -> dict[str, Any]:
    """Play the reference agents on panels of the paper and return their results."""
    results: dict[str, Any] = {}
    for panel in panels:
        game, _ = RELEASED[panel]
        setting = reference_setting(panel)
        results[panel] = {"played": setting.name, "fingerprint": setting.fingerprint, SUCCESS: {}, DRAWS: {}}
        for kind, agent in zip(("ceiling", "baseline"), AGENTS[game], strict=True):
            counts = outcome_counts(evaluate(make_agent(agent), setting.tasks, setting.options))
            results[panel][SUCCESS][kind] = {"agent": agent, "count": counts[SUCCESS], "of": len(setting.tasks)}
            if panel == "paper-tictactoe-mcts1000":
                results[panel][DRAWS][kind] = {"agent": agent, "count": counts[DRAWS], "of": counts["whole"]}
        results[panel] = {key: value for key, value in results[panel].items() if value}
    return results


def measure_mini(folder: Path, panels: Sequence[str]) -> dict[str, Any]:
    """Play the small models in `folder` on panels of the paper, or on generated tasks if the data are absent.

    Args:
        folder: Folder of the runs of `python -m examples.five`.
        panels: Names of the panels.

    Returns:
        Panel and measure to the estimate.
    """
    results = {}
    names = {record.name: name for record in RECORDS.values() for name in record.small_models}
    for panel in panels:
        models = sorted(folder.glob(f"{names[RELEASED[panel][0]]}-*/model"))
        if not models:
            continue
        agent = make_agent(f"model:{models[0]}")
        # The tasks and the options are the panel's; what the model reads, and what it remembers, are its own.
        own = {name: saved_options(agent)[name] for name in ("style", "context", "memory")}
        entry = named_panel(panel)
        setting = setting_for(f"{entry.stand_in or panel}-{SIZE}", **{**entry.defaults, **own})
        summary = summary_of(agent.name, setting, evaluate(agent, setting.tasks, setting.options))
        for measure in measures_of(panel):
            value = value_of(summary, measure)
            assert value is not None
            results[f"{panel}/{measure}"] = asdict(value)
        print(panel, summary.overall.pass_at[-1].mean, flush=True)
    return results


def measure_costs() -> list[dict[str, Any]]:
    """Return the costs of the stages of the main table, from 16 meta-episodes of random play each."""
    suite, machine = suite_of("table1"), hardware(HARDWARE)
    rows = []
    for stage in stages_of("table1"):
        cost = cost_of(stage, suite, machine, MEAN_REPLY, 16)
        rows.append({"stage": stage.number, "name": stage.name, "training": not stage.panel, **asdict(cost)})
    return rows


# -- the page ------------------------------------------------------------------------------------------------------


def with_ours(cells: Sequence[PaperCell], ours: dict[str, Any]) -> Iterator[PaperCell]:
    """Yield the cells with our stored runs."""
    for cell in cells:
        stored = ours.get(f"{cell.panel}/{cell.method}/{cell.measure}")
        yield PaperCell(**{**vars(cell), "ours": None if stored is None else Estimate(**stored)})


def _tables(results: dict[str, Any]) -> str:
    parts = []
    for name, title in (("table1", "The main table"), ("ood", "Opponents and tasks that training never shows")):
        cells = list(with_ours(cells_of(name, None), results["ours"]))
        parts.append(f"## {title}\n")
        for panel in dict.fromkeys(cell.panel for cell in cells):
            panel_cells = [cell for cell in cells if cell.panel == panel]
            for measure in dict.fromkeys(cell.measure for cell in panel_cells):
                mini = results.get("mini", {}).get(f"{panel}/{measure}")
                rows = [
                    [cell.method, *_with_mini(cell.texts(), None if mini is None else Estimate(**mini))]
                    for cell in panel_cells
                    if cell.measure == measure
                ]
                head = ["", "ours", "paper", "ceiling", "mini", "baseline", "mark"]
                parts.append(f"### `{panel}`: {measure}\n\n{markdown([head, *rows])}")
    return "\n".join(parts)


def _with_mini(texts: Sequence[str], mini: Estimate | None) -> list[str]:
    """Return the texts of a cell with the result of the small model between ceiling and baseline."""
    return [*texts[:3], NOT_KNOWN if mini is None else f"{mini.mean:.3f}", *texts[3:]]


def _cost_table(rows: Sequence[dict[str, Any]]) -> str:
    head = ["stages", "hours, typical", "hours, at most", "GPU hours, typical", "GPU hours, at most", "disk", "calls"]
    lines = []
    for title, training in (("trainings", True), ("evaluations", False)):
        stages = [row for row in rows if row["training"] == training]
        typical, maximum = (sum(row["hours"][index] for row in stages) for index in (0, 1))
        gpus = [sum(row["hours"][index] * row["devices"] for row in stages) for index in (0, 1)]
        disk = sum(row["disk"] for row in stages) / 2**40
        calls = sum(row["calls"][0] for row in stages)
        numbers = [f"{value:,.0f}" for value in (typical, maximum, *gpus)]
        lines.append([f"{len(stages)} {title}", *numbers, f"{disk:.1f} TiB" if disk else "", f"{calls:,.0f}"])
    return markdown([head, *lines])


def page() -> str:
    """Return the text of the page."""
    results = json.loads(RESULTS.read_text("utf-8"))
    marks = "\n".join(f"* **{mark}**: {meaning}." for mark, meaning in MARKS.items())
    unknown = "\n".join(f"* {text}" for text in UNKNOWN)
    return f"""\
# The paper's tables, cell by cell

This page is generated: `python -m dev.paper` writes it from data, and a test compares it with them. The paper is
arXiv 2603.03680. Its figures are those of Qwen3-4B, one run of 128 meta-episodes each.

The panels `paper-...` copy the released evaluation: the learner in one seat, 128 tasks, K = 10, and prompts without a
list of legal actions in those games whose prompts in the paper have none. A meta-episode ends with its first success.
The success rate counts meta-episodes with a success. The draw rate counts draws in episode 10 among the meta-episodes
that played it, without an interval. *Ours* is n/a where no run of the paper's model is stored here; an interval is 95%,
clustered by seed.

*Ceiling* is perfect play: minimax, betting in Kuhn Poker (no other play wins more of these deals), the experts of the
other games. *Baseline* is random play, in WebShop the policy that buys the next result of one search. ALFWorld and
WebShop need the original data in the folders that `ALFWORLD_DATA` and `WEBSHOP_DATA` name. Without them *ours* is
empty, and ceiling and baseline are those of generated tasks.

*Mini* is the [small model of the game](training.md#how-do-i-train-a-small-model-on-a-cpu), `mini-kuhn` and so on, of
90,000 to 500,000 weights over the words of the game, whose replies are drawn among the legal actions. It was trained on
meta-episodes of three episodes, in Tic-Tac-Toe against the six patterns, and in Sokoban in rooms with one box and at
most 8 moves, where it makes one move an answer. So its figures are not for comparison with the paper's.

{marks}

{_tables(results)}
## What remains unknown

{unknown}

## How to make the table

```sh
mage paper table1 --dry-run --quick
mage paper table1 --stage 1 --quick --out runs/table1
mage paper table1 --stage 25 --quick --out runs/table1
mage paper table1 --stage 53 --quick --out runs/table1
mage paper table1 --out runs/table1
mage paper ood --stage 21 --quick --out runs/ood
mage paper ood --out runs/ood
mage paper ablation-4.4.3 --dry-run --quick
mage eval policy:minimax --panel paper-tictactoe-mcts100 --memory none
```

`--dry-run` lists all stages in order: each training and each evaluation with the stages before it, its hours, GPU
hours, disk, calls, tokens and, with `--price`, its price. It ends with the `vllm serve` line for the prompted methods
and a chain of Slurm jobs. `--stage N` runs one stage, and continues it if it was stopped. Without both, the command
prints the table of the stages that are done. `--quick` is a trial: a tiny random model, scripted replies, and 16 tasks
a panel, generated ones if the data are absent.

The costs on `--hardware {HARDWARE}` are sums over the stages of `table1`. A typical run has the calls and prompts of
random play, and replies of {MEAN_REPLY} tokens (`--mean-reply`). At most, every call is made, with prompts and replies
at their limits. The rates of the hardware are assumptions ([hardware.md](hardware.md)).

{_cost_table(results["costs"])}
The ablations are `mage paper ablation-NAME`, with the names of [the ablations](benchmarks.md#ablations).
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, and the data first if an option asks for it."""
    parser = argparse.ArgumentParser(prog="python -m dev.paper", description=__doc__)
    parser.add_argument("--measure", nargs="*", choices=list(RELEASED), help="play the references again")
    parser.add_argument("--costs", action="store_true", help="compute the costs again")
    parser.add_argument("--mini", nargs="+", metavar="TEXT", help="folder of small models to play, and panels (all)")
    parser.add_argument("--runs", type=Path, help="folder of `mage paper`, to read our runs from")
    options = parser.parse_args(arguments)
    results = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {"ours": {}, "costs": []}
    if options.measure is not None:
        references = json.loads(REFERENCES.read_text("utf-8")) | measure_references(options.measure or list(RELEASED))
        REFERENCES.write_text(json.dumps(references, indent=1) + "\n", encoding="utf-8")
    if options.costs:
        results["costs"] = measure_costs()
    if options.mini is not None:
        results["mini"] = results.get("mini", {}) | measure_mini(
            Path(options.mini[0]), options.mini[1:] or list(RELEASED)
        )
    if options.runs is not None:
        for name in TABLES:
            for cell in cells_of(name, options.runs):
                if cell.ours is not None and cell.mark != "trial":
                    results["ours"][f"{cell.panel}/{cell.method}/{cell.measure}"] = asdict(cell.ours)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
