"""Run of a sweep: it trains the missing runs and writes one table of all runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mage_envs.benchmarks.evaluation.run.evaluate import progress_of
from mage_envs.benchmarks.evaluation.scoring.estimates import estimate
from mage_envs.benchmarks.executors.jobs import unwrap
from mage_envs.benchmarks.executors.naming import make_executor
from mage_envs.benchmarks.sweeps.plan import SweepRun
from mage_envs.benchmarks.sweeps.training import Measures, done, trainer_in
from mage_envs.cli.commands import print_result
from mage_envs.cli.tables import TextTable, as_text
from mage_envs.files.atomic import write_atomically
from mage_envs.interrupts import INTERRUPTED

TABLE = "sweep.txt"


def sweep(name: str, runs: Sequence[SweepRun], out: Path, executor: str, as_json: bool) -> None:
    """Train the runs that are missing in `out`, write the table there and print it.

    Args:
        name: Name of the sweep in progress lines.
        executor: Name of the executor, as in `--executor`.
        as_json: True to print the values as JSON.
    """
    # All runs are checked before the first training, so that a folder with other settings is refused at once.
    results: dict[str, dict[int, Measures]] = {run.name: {} for run in runs}
    todo = []
    for run in runs:
        measures = done(out, run)
        if measures is None:
            todo.append(run)
        else:
            results[run.name][run.seed] = measures
    progress, stored = progress_of(name, "trainings"), len(runs) - len(todo)
    # Each worker writes its own result, so an interruption loses only the trainings in progress.
    for index, outcome in make_executor(executor).run(partial(trainer_in, out), todo):
        run = todo[index]
        try:
            results[run.name][run.seed] = unwrap(outcome, f"{run.name}, seed {run.seed}")
        except SystemExit as end:
            if end.code != INTERRUPTED:
                raise
            raise KeyboardInterrupt from end
        progress(sum(map(len, results.values())), len(runs), stored)
    write_atomically(out / TABLE, as_text([table(results)]))
    print_result(list(rows(results)), [table(results)], as_json)


def rows(results: Mapping[str, Mapping[int, Measures]]) -> Iterator[dict[str, Any]]:
    """Yield a row per measure of each run: the mean over the seeds with a 95% interval of Student's t."""
    for name, by_seed in results.items():
        # A dict keeps the order of the measures; a set would not.
        names = dict.fromkeys(measure for measures in by_seed.values() for measure in measures)
        for measure in names:
            values = {seed: measures[measure] for seed, measures in by_seed.items() if measure in measures}
            seed_mean = estimate(list(values.values()), list(values))
            yield {
                "run": name,
                "measure": measure,
                "mean": seed_mean.mean,
                "low": seed_mean.low,
                "high": seed_mean.high,
                "seeds": seed_mean.n,
            }


def table(results: Mapping[str, Mapping[int, Measures]]) -> TextTable:
    """Return `rows` as a table."""
    columns = ["", "last fifth of the rollouts", "mean", "95% over seeds", "seeds"]
    cells = []
    for row in rows(results):
        between = "-" if row["low"] is None or row["high"] is None else f"{row['low']:.3f} to {row['high']:.3f}"
        cells.append([row["run"], row["measure"], f"{row['mean']:.3f}", between, str(row["seeds"])])
    return TextTable(columns, cells, text=(0, 1))
