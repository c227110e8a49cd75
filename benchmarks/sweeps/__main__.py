"""`mage-sweep FILE --seeds 3`: trains presets under overrides with several seeds, and prints one table."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.evaluation.estimates import estimate
from benchmarks.evaluation.evaluate import progress_of
from benchmarks.executors import add_option, make_executor
from benchmarks.executors.jobs import given
from benchmarks.sweeps.plan import EXAMPLE, read_plan
from benchmarks.sweeps.training import Measures, done, trainer_in
from mage_envs import progress
from mage_envs.durable import write_atomically

TABLE = "sweep.txt"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns 0, 2 after an error (one line on stderr), 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="mage-sweep", description=(__doc__ or "").partition(":")[2].strip())
    parser.add_argument("file", type=Path, metavar="FILE", help=f"YAML, as in {EXAMPLE}".replace("%", "%%"))
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="trainings of each (3)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="of the runs (runs/NAME of the file)")
    add_option(parser)
    chosen = parser.parse_args(arguments)
    out: Path = chosen.out or Path("runs") / chosen.file.stem
    try:
        with progress.shown():
            text = swept(chosen.file, chosen.seeds, out, chosen.executor)
    except KeyboardInterrupt:
        sys.stderr.write("\nmage-sweep: interrupted; the same command goes on from there.\n")
        return 130
    except (ValueError, LookupError, OSError, ImportError, RuntimeError) as error:
        sys.stderr.write(f"mage-sweep: {' '.join(str(error).split())}\n")
        return 2
    sys.stdout.write(text)
    return 0


def swept(file: Path, seeds: int, out: Path, executor: str) -> str:
    """The table of the sweep in `file`, after what was missing in `out` has been trained."""
    runs = read_plan(file, seeds)
    results: dict[str, dict[int, Measures]] = {run.name: {} for run in runs}
    todo = []
    for run in runs:
        kept = done(out, run)
        if kept is None:
            todo.append(run)
        else:
            results[run.name][run.seed] = kept
    shown, before = progress_of(file.stem, "trainings"), len(runs) - len(todo)
    for place, outcome in make_executor(executor).run(partial(trainer_in, out), todo):
        run = todo[place]
        results[run.name][run.seed] = given(outcome, f"{run.name}, seed {run.seed}")
        shown(sum(map(len, results.values())), len(runs), before)
    text = table(results)
    write_atomically(out / TABLE, text)
    return text


def table(results: Mapping[str, Mapping[int, Measures]]) -> str:
    """A line for each measure of each run: its mean over the seeds with a 95% interval by Student's t."""
    width = max(map(len, results))
    lines = [f"{'':<{width}}  {'last fifth of the rollouts':<26}     mean  95% over seeds     seeds"]
    for name, by_seed in results.items():
        names = dict.fromkeys(measure for measures in by_seed.values() for measure in measures)
        for measure in names:
            values = {seed: measures[measure] for seed, measures in by_seed.items() if measure in measures}
            found = estimate(list(values.values()), list(values))
            between = "-" if found.low is None or found.high is None else f"{found.low:.3f} to {found.high:.3f}"
            lines.append(f"{name:<{width}}  {measure:<26} {found.mean:8.3f}  {between:<18}  {found.n:>3}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    import mage_commands

    sys.exit(mage_commands.sweep())
