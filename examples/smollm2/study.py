"""SmolLM2-135M in the ultimatum game: as it is, after the warm start, and after training, with controls.

The command `mage train --config examples/smollm2/train.yaml` make the model. Every cell is a
run that `mage eval` could have stored, so `mage report` and `mage verify` read it. A finished run is not repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from mage_envs.benchmarks.evaluation.run.agents import Agent, GeneratorAgent, SavedModelAgent, make_agent
from mage_envs.benchmarks.evaluation.run.options import EvalOptions
from mage_envs.benchmarks.evaluation.run.panel_setting import setting_from
from mage_envs.benchmarks.evaluation.scoring.estimates import Estimate
from mage_envs.benchmarks.evaluation.tables.summary_table import number
from mage_envs.benchmarks.exact.regret import regret_of_run
from mage_envs.benchmarks.records.controls import apply_control
from mage_envs.benchmarks.records.record_store import Records
from mage_envs.benchmarks.runs.measuring import measure
from mage_envs.cli.program import main as mage
from mage_envs.cli.tables import TextTable
from mage_envs.files.atomic import write_atomically
from mage_envs.opponents.exact import headroom
from mage_envs.registry import make_game, settings_of
from mage_envs.trainer.backends.play_settings import make_generator

ENV_ID = "mage/Ultimatum-Meta-v0"
TRAINED = Path("runs/smollm2-ultimatum")
CONFIG = Path(__file__).with_name("train.yaml")
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
PANEL_SEED = 40_000
"""Seed of the panel. Training uses other seeds."""
PROSE_ROWS = 1
"""Meta-episodes per opponent with the default prompts, which are long."""


@dataclass(frozen=True, kw_only=True)
class MeasuredCell:
    """Scores of one agent under one memory."""

    name: str
    meta_episodes: int
    legal: float
    """Share of the replies that are legal actions."""
    episodes: list[dict[str, Any]]
    """`Estimate` of the value in each episode, in pies."""
    adjusted: list[dict[str, Any] | None]
    """The same without the luck of the opponents' draws, as `mage regret` computes it from the played offers."""
    transcripts: list[str]
    """One meta-episode per opponent: its offers and what they paid."""


def build(start: str | Path, trained: Path) -> None:
    """Train the start model, unless the folder of the trained one is complete."""
    if not (trained / "mage.json").is_file():
        run("train", "--config", str(CONFIG), "--model", str(start), "--output_dir", str(trained), "--resume_if_any")


def run(*arguments: str) -> None:
    """Run a command of `mage` in this process. Raise RuntimeError if it fails."""
    if status := mage(arguments):
        raise RuntimeError(f"mage {' '.join(arguments)} ended with status {status}.")


def cells(start: Path, trained: Path, rows: int) -> list[MeasuredCell]:
    """Play every agent under every memory, or read the runs that are stored in `trained`/study."""
    trained_agent, runs = SavedModelAgent(trained), trained / "study"
    options = EvalOptions(env=ENV_ID, game_options=trained_agent.settings.env_kwargs, rows=rows, seed=PANEL_SEED)
    # Few tokens, because no reply in these prompts is an action, and each takes a call of its own.
    prose = make_agent(f"hf:{start},max_tokens=16")
    results = [
        cell(
            "as it is, default prompts",
            prose,
            replace(options, game_options={"memory": "history", "on_invalid": "forfeit"}, rows=PROSE_ROWS),
            runs / "prose",
        )
    ]
    for name, folder in (("as it is", start), ("after the warm start", trained / "warm")):
        # The trained model's prompts and limits, with other weights.
        agent = GeneratorAgent(make_generator(folder, trained_agent.settings, cached=True), f"{name}: {folder}")
        results.append(cell(name, agent, options, runs / folder.name))
    trained_run = runs / "trained"
    results.append(cell("trained", trained_agent, options, trained_run))
    results.append(cell("trained, no memory", trained_agent, options, runs / "none", "none"))
    results.append(
        cell("trained, another opponent's memory", trained_agent, options, runs / "other", "other", str(trained_run))
    )
    return results


def cell(
    name: str, agent: Agent, options: EvalOptions, out: Path, control: str | None = None, source: str | None = None
) -> MeasuredCell:
    """Return the scores of one agent, whose run is stored in `out`.

    Args:
        out: Folder of the run. If it holds meta-episodes, only the missing ones are played.
        control: Control of the memory, or None.
        source: Run from which the control `other` copies memories.
    """
    setting = setting_from(options, agent)
    if control is not None:
        setting = apply_control(setting, control, source)
    run_options = replace(options, agents=(agent.name,), out=out, resume=out.exists(), control=None)
    scores = measure(run_options, agent, setting, agent.name).summary.overall
    regrets = regret_of_run(Records(out))
    values = [episode.returns.estimate for episode in scores.episodes]
    return MeasuredCell(
        name=name,
        meta_episodes=scores.meta_episodes,
        legal=1 - scores.invalid,
        episodes=[asdict(value) for value in values],
        adjusted=[None if regret.adjusted is None else asdict(regret.adjusted) for regret in regrets.episodes],
        transcripts=transcripts(out),
    )


def transcripts(folder: Path) -> list[str]:
    """Return the first meta-episode against each opponent of a run, one line each: replies and returns."""
    lines: dict[str, str] = {}
    for _, line in sorted(Records(folder).lines.items()):
        replies = [" ".join(call["reply"].split())[:40] for call in line["calls"]]
        paid = " ".join(f"{episode['value']:.1f}" for episode in line["episodes"])
        lines.setdefault(line["opponent"], f"{line['opponent']}: {' | '.join(replies)} -> {paid}")
    return list(lines.values())


def table(results: Sequence[MeasuredCell], exact: Any) -> str:
    """Return the results as text."""
    rows = [
        [
            result.name,
            str(result.meta_episodes),
            f"{result.legal:.1%}",
            *map(_cell, result.episodes),
            _cell(result.adjusted[-1]),
        ]
        for result in results
    ]
    solved = exact["per_episode"]
    for name, values in (("blind", [exact["blind"]] * 3), ("Bayes-optimal, sum", solved["sum"])):
        rows.append([f"{name}, exact", "", "", *map(number, values), ""])
    rows.append(["known opponent, exact", "", "", *[number(exact["known"])] * 3, ""])
    head = ["", "n", "legal", "episode 1", "episode 2", "episode 3", "episode 3, luck-adjusted"]
    notes = [
        "Values are shares of the pie; ± is half a 95% interval. n: meta-episodes of three episodes, the same number",
        "against each hidden price from 1 to 8. legal: share of the replies that are legal actions; any other reply",
        "forfeits its episode. luck-adjusted: mage regret, from the offers that were made.",
    ]
    text = ["SmolLM2-135M-Instruct in the ultimatum game", "", str(TextTable(head, rows)).rstrip(), *notes]
    for result in results:
        text += ["", f"{result.name}: replies of one meta-episode per opponent -> paid", *result.transcripts]
    return "\n".join(text) + "\n"


def _cell(estimate: dict[str, Any] | None) -> str:
    if estimate is None:
        return "n/a"
    read = Estimate(**estimate)
    return number(read.mean) if read.half is None else f"{number(read.mean)} ± {read.half:.3f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, train and measure, and write the table and its numbers."""
    parser = argparse.ArgumentParser(prog="python -m examples.smollm2", description=__doc__)
    parser.add_argument("--rows", type=int, default=32, metavar="N", help="meta-episodes per opponent (default: 32)")
    parser.add_argument("--start", type=Path, metavar="FOLDER", help="start model (default: smollm2 of the cache)")
    parser.add_argument(
        "--trained", type=Path, default=TRAINED, metavar="FOLDER", help=f"trained model (default: {TRAINED})"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FOLDER", help="folder of smollm2.txt and .json")
    options = parser.parse_args(arguments)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    build(options.start, options.trained)
    game = make_game("Ultimatum")
    exact = headroom(game, str(settings_of("Ultimatum").opponent), episodes=3, seat="first", gt=0.6).to_json()
    results = cells(options.start, options.trained, options.rows)
    text = table(results, exact)
    write_atomically(options.out / "smollm2.txt", text)
    numbers = {"cells": [asdict(result) for result in results], "exact": exact}
    write_atomically(options.out / "smollm2.json", json.dumps(numbers, indent=1) + "\n")
    sys.stdout.write(text)
    return 0
