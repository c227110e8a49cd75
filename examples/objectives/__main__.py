"""`python -m examples.objectives`: a tiny model trained under each credit, in games whose credits differ.

The runs use the suite's own trainer, start from random weights and play in worker processes. Each finished run is
saved. If the command is stopped, the same command does the remaining runs.
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

from examples.objectives.figure import draw
from examples.objectives.report import LearnedRow, as_json, build_row, table
from examples.objectives.study import ABLATIONS, GAMES, LEARNERS, Learner, StudyGame, StudyRun
from mage_envs.benchmarks.executors.jobs import unwrap
from mage_envs.benchmarks.executors.on_this_machine import Processes
from mage_envs.files.atomic import write_atomically
from mage_envs.progress import ProgressLine

SEEDS = 3
Found = dict[str, dict[str, Any]]
"""Results of the runs, by the run's name."""


def _learning() -> Callable[[StudyRun], dict[str, Any]]:
    """Return the work of a worker process."""
    # Imported in the worker only, because the calling process needs neither torch nor the trainer.
    from examples.objectives.learning import Learning

    return Learning()


def load_result(run: StudyRun, folder: Path) -> dict[str, Any] | None:
    """Return the saved result of a run, or None if there is none with the same settings."""
    path = folder / f"{run.name}.json"
    if not path.exists():
        return None
    content = json.loads(path.read_text())
    result: dict[str, Any] = content["found"]
    # The settings make a round trip through JSON, because the file holds lists for tuples.
    return result if content["run"] == json.loads(json.dumps(run.to_json())) else None


def keep(run: StudyRun, folder: Path, outcome: dict[str, Any]) -> None:
    """Save the result of a run for a later call of the same command.

    Args:
        folder: Folder of the saved results.
        outcome: Result of the run as JSON values.
    """
    write_atomically(folder / f"{run.name}.json", json.dumps({"run": run.to_json(), "found": outcome}))


def complete(runs: Sequence[StudyRun], folder: Path, workers: int, log: Callable[[str, bool], None]) -> Found:
    """Do the runs that have no saved result, and save each result immediately.

    Args:
        folder: Folder of the saved results.
        workers: Number of worker processes.
        log: Function that writes a progress line. Its second argument is True if the line is a milestone.

    Returns:
        The results by the run's name.

    Raises:
        Exception: If a run raises, the same exception.
    """
    results: Found = {run.name: was for run in runs if (was := load_result(run, folder)) is not None}
    waiting = [run for run in runs if run.name not in results]
    if results:
        log(f"{len(results)} of {len(runs)} runs were done before", True)
    # The remaining time is estimated from this call's runs only, hence `initial_count`.
    initial_count, began = len(results), time.monotonic()
    with closing(Processes(workers).run(_learning, waiting)) as running:
        for index, outcome in running:
            run = waiting[index]
            gave: dict[str, Any] = unwrap(outcome, run.name)
            results[run.name] = gave
            keep(run, folder, gave)
            seconds_left = (time.monotonic() - began) / (len(results) - initial_count) * (len(runs) - len(results))
            figures = " ".join(f"{value:.3f}" for value in gave["episodes"])
            seconds = f"{gave['seconds']:.0f} CPU s"
            log(
                f"{len(results)} of {len(runs)} runs; {run.name}: {figures} ({seconds}); {seconds_left:.0f} s left",
                True,
            )
    return results


def rows_of(
    games: Sequence[StudyGame], learners: Sequence[Learner], runs: Sequence[StudyRun], results: Found
) -> list[LearnedRow]:
    """Return one row for each learner of each game."""
    rows = []
    for game in games:
        for learner in learners:
            mine = [run for run in runs if run.game is game and run.learner is learner]
            rows.append(build_row(game, learner, {run.seed: results[run.name] for run in mine}))
    return rows


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m examples.objectives", description=__doc__)
    names = [game.name for game in GAMES]
    parser.add_argument("--ablations", action="store_true", help="compare anchors, grouping and normalisation")
    parser.add_argument("--games", nargs="+", choices=names, default=names, metavar="GAME", help=", ".join(names))
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"number of runs per learner (default: {SEEDS})")
    parser.add_argument("--rollouts", type=int, help="number of rollouts of every run (default: set by the game)")
    parser.add_argument("--workers", type=int, default=2, help="number of parallel runs, one core each (default: 2)")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("runs/objectives"),
        metavar="FOLDER",
        help="folder of the results (default: runs/objectives)",
    )
    parser.add_argument("--save", action="store_true", help="also write the results to benchmarks/results")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Do all runs, and print and write the table. Return 130 if Ctrl-C stopped the runs."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if min(options.seeds, options.workers, 1 if options.rollouts is None else options.rollouts) < 1:
        parser.error("--seeds, --workers and --rollouts must be at least 1.")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    games = [game for game in GAMES if game.name in options.games]
    learners = ABLATIONS if options.ablations else LEARNERS
    # Seeds are the outer loop, so that a stopped study holds every learner with fewer seeds.
    runs = [
        StudyRun(game=game, learner=learner, seed=seed, rollouts=options.rollouts)
        for seed in range(options.seeds)
        for game in games
        for learner in learners
    ]
    try:
        results = complete(runs, options.out / "runs", options.workers, ProgressLine())
    except KeyboardInterrupt:
        print(f"\nStopped. The finished runs are in {options.out}. The same command does the others.")
        return 130
    rows = rows_of(games, learners, runs, results)
    text = table(rows, games)
    name = "objectives_ablations" if options.ablations else "objectives"
    machine = {"python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count()}
    folders = [options.out, *([Path(__file__).parents[2] / "benchmarks" / "results"] if options.save else [])]
    for folder in folders:
        write_atomically(folder / f"{name}.txt", text)
        write_atomically(folder / f"{name}.json", json.dumps(as_json(rows, machine), indent=1) + "\n")
        draw(folder / f"{name}.png", rows, games)
    print(text)
    print(f"Written to {', '.join(str(folder / name) for folder in folders)}.txt, .json and .png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
