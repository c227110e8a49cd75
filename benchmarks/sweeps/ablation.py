"""`mage ablate`: trains and evaluates the ablations of the paper's section 4.4, with one table of results."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Annotated, Literal

import typer

from benchmarks.executors import ExecutorOption
from benchmarks.sweeps.plan import Fields, SweepRun, flags, seeds_of
from benchmarks.sweeps.sweep import SeedsOption, sweep
from mage_envs.cli.commands import JsonOption
from mage_envs.files.atomic import output_path
from trainer.config.presets import ABLATIONS

SECTIONS: Mapping[str, int] = {"4.4.1": 0, "4.4.2": 1, "4.4.3": 2}
"""Section of arXiv 2603.03680 to index in `ABLATIONS`: returns; opponents, statistics and grouping; anchors."""
ROLLOUTS: Mapping[str, int] = {"words": 50, "tiny": 2}
"""Default rollouts per training of a small model. With them, the twelve settings of 4.4.2 with three seeds take less
than a quarter of an hour on two cores."""
PANEL = "tictactoe-paper-128"
_EVALUATED: Fields = {"eval_panel": PANEL, "eval_every": 10_000}
_ALL: Fields = {**_EVALUATED, "log_transcripts": 0}
_SMALL: Fields = {
    "advantage": "gigpo",
    "advantage_norm": "mean",
    "credit": "episode",
    "groups_per_rollout": 8,
    "beta": 0.0,
    "use_cpu": True,
    "save_strategy": "no",
}
"""Settings for a small model that replace the presets' settings for the 4B model."""
_TINY: Fields = {
    "groups_per_rollout": 1,
    "num_generations": 4,
    "max_completion_length": 8,
    "eval_panel": "tictactoe-paper-16",
}
"""Further settings for `tiny`. Its random text is never an action, so every meta-episode has its maximum length."""


def ablation_runs(section: str, model: str, seeds: int, rollouts: int | None) -> list[SweepRun]:
    """Return the trainings of a section: each of its presets once per seed.

    Args:
        section: Key of `SECTIONS`.
        model: `words`, `tiny` or the folder of a model.
        seeds: Number of seeds.
        rollouts: Rollouts per training, or None for the default of the model or the preset.
    """
    # Later settings take precedence: those for `tiny` replace those for all small models.
    fields = {"model": model, **_ALL, **(_SMALL if model in ROLLOUTS else {}), **(_TINY if model == "tiny" else {})}
    # A model of the user's own has no default here and keeps the preset's number of rollouts.
    length = rollouts if rollouts is not None else ROLLOUTS.get(model)
    if length is not None:
        fields["max_rollouts"] = length
    runs = []
    for chosen in product(*ABLATIONS[SECTIONS[section]]):
        name = "-".join(chosen)
        words = ("--preset", f"ablation-{name}", *flags(fields))
        runs += [SweepRun(name, seed, words) for seed in seeds_of(seeds)]
    return runs


def command(
    section: Annotated[
        Literal["4.4.1", "4.4.2", "4.4.3"], typer.Argument(help="Section of the paper: returns, opponents, anchors")
    ],
    out: Annotated[
        Path,
        typer.Option(
            parser=output_path, metavar="FOLDER", help="Folder of the runs; the same command resumes from it (required)"
        ),
    ],
    model: Annotated[
        str,
        typer.Option(
            metavar="M",
            help="words (a small model that learns), tiny (a smoke test that learns nothing), or a model's folder "
            "(default: words)",
        ),
    ] = "words",
    seeds: SeedsOption = 3,
    rollouts: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help=f"Rollouts per training (default: {ROLLOUTS['words']} for words, {ROLLOUTS['tiny']} for tiny, "
            "else the preset's)",
        ),
    ] = None,
    executor: ExecutorOption = "local",
    as_json: JsonOption = False,
) -> None:
    """Train and evaluate the ablations of the paper's section 4.4 over seeds, in one table.

    Example: mage ablate 4.4.3 --seeds 1 --rollouts 2 --out runs/anchors
    """
    runs = ablation_runs(section, model, seeds, rollouts)
    sweep(f"ablation {section}", runs, out, executor, as_json)
