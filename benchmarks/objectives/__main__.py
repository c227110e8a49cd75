"""`python -m benchmarks.objectives`: what a tiny model learns under each credit, in games where credits differ.

Runs with the suite's own trainer, from random weights, in worker processes; each run that is done is kept, and the same
command goes on with the others.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.demo.run import Log
from benchmarks.executors import Processes, given
from benchmarks.objectives.figure import draw
from benchmarks.objectives.report import LearnedRow, as_json, learned_row, table
from benchmarks.objectives.study import ABLATIONS, GAMES, LEARNERS, Learner, StudyGame, StudyRun
from mage_commands import OneLineParser
from mage_envs.durable import write_atomically

SEEDS = 3
Found = dict[str, dict[str, Any]]
"""What each run gave, by its name."""


def _learning() -> Callable[[StudyRun], dict[str, Any]]:
    """What a worker does; the trainer is imported there."""
    from benchmarks.objectives.learning import Learning

    return Learning()


def kept(run: StudyRun, folder: Path) -> dict[str, Any] | None:
    """What a run of the same settings gave before."""
    path = folder / f"{run.name}.json"
    if not path.exists():
        return None
    content = json.loads(path.read_text())
    found: dict[str, Any] = content["found"]
    return found if content["run"] == json.loads(json.dumps(run.to_json())) else None


def keep(run: StudyRun, folder: Path, outcome: dict[str, Any]) -> None:
    """Writes down what a run gave, for a later call of the same command."""
    write_atomically(folder / f"{run.name}.json", json.dumps({"run": run.to_json(), "found": outcome}))


def complete(runs: Sequence[StudyRun], folder: Path, workers: int, log: Callable[[str, bool], None]) -> Found:
    """Does the runs that were not done before, and keeps each as soon as it is done. Raises what a run raised."""
    found: Found = {run.name: was for run in runs if (was := kept(run, folder)) is not None}
    waiting = [run for run in runs if run.name not in found]
    if found:
        log(f"{len(found)} of {len(runs)} runs were done before", True)
    first, began = len(found), time.monotonic()
    with closing(Processes(workers).run(_learning, waiting)) as running:
        for place, outcome in running:
            run = waiting[place]
            gave: dict[str, Any] = given(outcome, run.name)
            found[run.name] = gave
            keep(run, folder, gave)
            left = (time.monotonic() - began) / (len(found) - first) * (len(runs) - len(found))
            figures = " ".join(f"{value:.3f}" for value in gave["episodes"])
            seconds = f"{gave['seconds']:.0f} CPU s"
            log(f"{len(found)} of {len(runs)} runs; {run.name}: {figures} ({seconds}); {left:.0f} s left", True)
    return found


def rows_of(
    games: Sequence[StudyGame], learners: Sequence[Learner], runs: Sequence[StudyRun], found: Found
) -> list[LearnedRow]:
    """One row for each learner of each game."""
    rows = []
    for game in games:
        for learner in learners:
            mine = [run for run in runs if run.game is game and run.learner is learner]
            rows.append(learned_row(game, learner, {run.seed: found[run.name] for run in mine}))
    return rows


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(prog="python -m benchmarks.objectives", description=__doc__)
    names = [game.name for game in GAMES]
    parser.add_argument("--ablations", action="store_true", help="anchors, grouping and normalisation instead")
    parser.add_argument("--games", nargs="+", choices=names, default=names, metavar="GAME", help=", ".join(names))
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"runs of each learner ({SEEDS})")
    parser.add_argument("--rollouts", type=int, help="of every run (each game's own)")
    parser.add_argument("--workers", type=int, default=2, help="runs side by side, a core each (2)")
    parser.add_argument("--out", type=Path, default=Path("runs/objectives"), metavar="FOLDER", help="of the results")
    parser.add_argument("--save", action="store_true", help="also write the results to benchmarks/results")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Does all runs, prints the table and writes it."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    if min(chosen.seeds, chosen.workers, 1 if chosen.rollouts is None else chosen.rollouts) < 1:
        parser.error("--seeds, --workers and --rollouts must be at least 1.")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    games = [game for game in GAMES if game.name in chosen.games]
    learners = ABLATIONS if chosen.ablations else LEARNERS
    runs = [
        StudyRun(game=game, learner=learner, seed=seed, rollouts=chosen.rollouts)
        for seed in range(chosen.seeds)
        for game in games
        for learner in learners
    ]
    try:
        found = complete(runs, chosen.out / "runs", chosen.workers, Log())
    except KeyboardInterrupt:
        print(f"\nStopped. What is done lies in {chosen.out}; the same command goes on.")
        return 130
    rows = rows_of(games, learners, runs, found)
    text = table(rows, games)
    name = "objectives_ablations" if chosen.ablations else "objectives"
    machine = {"python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count()}
    folders = [chosen.out, *([Path(__file__).parents[1] / "results"] if chosen.save else [])]
    for folder in folders:
        write_atomically(folder / f"{name}.txt", text)
        write_atomically(folder / f"{name}.json", json.dumps(as_json(rows, machine), indent=1) + "\n")
        draw(folder / f"{name}.png", rows, games)
    print(text)
    print(f"Written to {', '.join(str(folder / name) for folder in folders)}.txt, .json and .png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
