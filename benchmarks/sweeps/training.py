"""One training of a sweep: it starts, resumes from its checkpoint, or returns the result of an earlier run."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from pathlib import Path

from mage_envs.benchmarks.evaluation.run.agents import make_agent
from mage_envs.benchmarks.evaluation.run.options import EvalOptions
from mage_envs.benchmarks.evaluation.run.panel_setting import setting_from
from mage_envs.benchmarks.evaluation.scoring.scores import score_of
from mage_envs.benchmarks.evaluation.suites.panels import named_panel
from mage_envs.benchmarks.records.record_store import RUN
from mage_envs.benchmarks.runs.measuring import measure
from mage_envs.benchmarks.sweeps.plan import SweepRun
from mage_envs.files.atomic import open_to_append, write_atomically
from mage_envs.files.bounded import UnsafeFile, read_json_inside
from mage_envs.interrupts import INTERRUPTED
from mage_envs.loading.imports import names_from
from mage_envs.wrappers.protocol import as_protocol

RESULT, SHOWN = "result.json", "shown.txt"
_PART = 5
"""Divisor of the rollouts: measures are means over the last fifth of them."""
Measures = dict[str, float]


def trainer_in(out: Path) -> Callable[[SweepRun], Measures]:
    """Return a function that trains a run in a subfolder of `out` and returns its measures."""

    def train(run: SweepRun) -> Measures:
        # A job that is retried after the loss of its worker may have finished.
        stored = done(out, run)
        if stored is not None:
            return stored
        # Imported here: a sweep whose runs are all done prints its table without loading torch.
        import torch

        from mage_envs.trainer.cli.train import main
        from mage_envs.trainer.runs.run_folder import checkpoints

        folder = folder_of(out, run)
        if not folder.resolve().is_relative_to(out.resolve()):
            raise UnsafeFile(f"{folder} is a link to {str(folder.resolve())!r}; make {out} the link instead.")
        folder.mkdir(parents=True, exist_ok=True)
        words = [*run.arguments, "--seed", str(run.seed), "--output_dir", str(folder)]
        words += ["--resume"] if checkpoints(folder) else []
        threads = torch.get_num_threads()
        # Trainings share the cores, and one thread keeps floating-point sums independent of the number of cores.
        torch.set_num_threads(1)
        try:
            # A sweep file may come from a stranger, so it may not import a module that the user did not name.
            names = names_from(run.file, paths=True) if run.file else nullcontext()
            log = os.fdopen(open_to_append(folder / SHOWN), "a", encoding="utf-8")
            with names, log as output, redirect_stdout(output), redirect_stderr(output):
                status = main(words)
        finally:
            torch.set_num_threads(threads)
        if status == INTERRUPTED:
            # Ctrl-C ended the training, which saved its state. It also ends the sweep.
            raise SystemExit(INTERRUPTED)
        if status:
            last_line = (folder / SHOWN).read_text("utf-8").strip().splitlines()[-1:]
            raise RuntimeError(f"{run.name}, seed {run.seed}: {' '.join(last_line)} (full log: {folder / SHOWN})")
        measures = training_measures(folder) | evaluation_measures(folder, run.panels)
        # Written last: the presence of this file marks the run as finished.
        write_atomically(folder / RESULT, json.dumps({"arguments": run.arguments, "measures": measures}) + "\n")
        return measures

    return train


def folder_of(out: Path, run: SweepRun) -> Path:
    """Return the folder of a run."""
    return out / run.name / f"seed-{run.seed}"


def done(out: Path, run: SweepRun) -> Measures | None:
    """Return the measures of a finished run, else None. Raise ValueError if the run had other settings."""
    path = folder_of(out, run) / RESULT
    if not path.exists():
        return None
    result = read_json_inside(path.parent, path.name)
    try:
        arguments, measures = (
            tuple(result["arguments"]),
            {str(name): float(x) for name, x in result["measures"].items()},
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path} is not a result of a sweep; remove it to train the run again.") from error
    if arguments != run.arguments:
        raise ValueError(f"{path} belongs to other settings ({' '.join(map(str, arguments))}); choose another --out.")
    return measures


def evaluation_measures(folder: Path, panels: Sequence[str]) -> Measures:
    """Return the headline scores of a saved model on panels, and the draws if there are any.

    A panel whose data or engine are absent has none. The runs are kept below the model's folder.
    """
    measures: Measures = {}
    for name in panels:
        if named_panel(name).missing() or named_panel(name).obstacle():
            continue
        agent, out = make_agent(str(folder)), folder / "evaluations" / name
        options = EvalOptions(panel=name, out=out, resume=(out / RUN).exists(), baselines=False)
        scored = measure(options, agent, setting_from(options, agent), str(folder)).summary
        measures[name] = score_of(scored)
        if draws := scored.overall.episodes[-1].draws:
            measures[f"{name}, draws"] = draws
    return measures


def _stops_early(folder: Path) -> bool:
    """Return True if the meta-episodes of a saved model's training ended with their first success."""
    from mage_envs.trainer.backends.play_settings import PlaySettings

    return as_protocol(PlaySettings.load(folder).env_kwargs.get("protocol", "adaptive")).early_stop


def training_measures(folder: Path) -> Measures:
    """Return means over the last fifth of the rollouts, and the best evaluation score if there is one.

    The means are success and value of the first and the last episode, and their differences.
    """
    from mage_envs.wrappers.rollout.training_log import means, metric_rows

    rows = metric_rows(folder, "rollout")
    last_means = means(rows[-max(len(rows) // _PART, 1) :])
    measures: Measures = {}
    for kind in ("success", "value"):
        values: list[float] = []
        while (key := f"{kind}/episode_{len(values) + 1}") in last_means:
            values.append(last_means[key])
        if values:
            measures[f"{kind}, first"] = values[0]
        # After an early stop, only meta-episodes without a success play the last episode.
        if values and not _stops_early(folder):
            measures |= {f"{kind}, last": values[-1], f"{kind}, gain": values[-1] - values[0]}
    scores = [row["score"] for row in metric_rows(folder, "eval")]
    return measures | ({"best evaluation": max(scores)} if scores else {})
