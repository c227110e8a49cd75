"""One training of a sweep, in whatever process: it begins, goes on from its checkpoint, or is done already."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from pathlib import Path

from benchmarks.sweeps.plan import SweepRun
from mage_envs.durable import write_atomically
from mage_envs.imports import names_from

RESULT, SHOWN = "result.json", "shown.txt"
_PART = 5
"""The last fifth of the rollouts counts."""
Measures = dict[str, float]


def trainer_in(out: Path) -> Callable[[SweepRun], Measures]:
    """What does a run; its folder lies in `out`."""

    def train(run: SweepRun) -> Measures:
        kept = done(out, run)
        if kept is not None:
            return kept
        import torch

        from trainer.__main__ import main
        from trainer.run_folder import checkpoints

        folder = folder_of(out, run)
        folder.mkdir(parents=True, exist_ok=True)
        words = [*run.arguments, "--seed", str(run.seed), "--output_dir", str(folder)]
        words += ["--resume"] if checkpoints(folder) else []
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # trainings share the cores; and the sums do not depend on how many there are
        try:
            # A sweep file may come from a stranger: it may name no module that the user did not import.
            names = names_from(run.file, paths=True) if run.file else nullcontext()
            log = (folder / SHOWN).open("a", encoding="utf-8")
            with names, log as shown, redirect_stdout(shown), redirect_stderr(shown):
                status = main(words)
        finally:
            torch.set_num_threads(threads)
        if status:
            last = (folder / SHOWN).read_text("utf-8").strip().splitlines()[-1:]
            raise RuntimeError(f"{run.name}, seed {run.seed}: {' '.join(last)} (all of it: {folder / SHOWN})")
        measures = measured(folder)
        write_atomically(folder / RESULT, json.dumps({"arguments": run.arguments, "measures": measures}) + "\n")
        return measures

    return train


def folder_of(out: Path, run: SweepRun) -> Path:
    """Where a run lies."""
    return out / run.name / f"seed-{run.seed}"


def done(out: Path, run: SweepRun) -> Measures | None:
    """What a run came to; None where it is not done. Raises ValueError where it was done with other settings."""
    path = folder_of(out, run) / RESULT
    if not path.exists():
        return None
    kept = json.loads(path.read_text())
    if tuple(kept["arguments"]) != run.arguments:
        raise ValueError(f"{path} is of other settings ({' '.join(kept['arguments'])}); choose another --out.")
    measures: Measures = kept["measures"]
    return measures


def measured(folder: Path) -> Measures:
    """Means over the last fifth of the rollouts: success and value of the first and the last episode, and their
    difference; the best score of the evaluations, if there were any."""
    from trainer.run_log import means, metric_rows

    rows = metric_rows(folder, "rollout")
    last = means(rows[-max(len(rows) // _PART, 1) :])
    found: Measures = {}
    for measure in ("success", "value"):
        values: list[float] = []
        while (key := f"{measure}/episode_{len(values) + 1}") in last:
            values.append(last[key])
        if values:
            found |= {f"{measure}, first": values[0], f"{measure}, last": values[-1]}
            found[f"{measure}, gain"] = values[-1] - values[0]
    scores = [row["score"] for row in metric_rows(folder, "eval")]
    return found | ({"best evaluation": max(scores)} if scores else {})
