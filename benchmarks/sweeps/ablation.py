"""`mage-bench ablate`: what section 4.4 of the paper takes away from MAGE, trained, evaluated, told in one table."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from itertools import product

from benchmarks.executors import add_option
from benchmarks.sweeps.plan import Fields, SweepRun, flags, seeds_of
from benchmarks.sweeps.sweep import swept
from mage_envs.durable import output_path
from trainer.presets import ABLATIONS

SECTIONS: Mapping[str, int] = {"4.4.1": 0, "4.4.2": 1, "4.4.3": 2}
"""Of arXiv 2603.03680 to the place in `ABLATIONS`: returns; opponents, statistics and grouping; anchors."""
ROLLOUTS: Mapping[str, int] = {"words": 50, "tiny": 2}
"""Of each training with a small model: so many that the twelve settings of 4.4.2 with three seeds take less than a
quarter of an hour on two cores."""
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
"""What a tiny model needs in place of the 4B model's settings; the credit stays the preset's."""
_TINY: Fields = {
    "groups_per_rollout": 1,
    "num_generations": 4,
    "max_completion_length": 8,
    "eval_panel": "tictactoe-paper-16",
}
"""What `tiny` needs beside: it writes any text, hence never an answer, so that each meta-episode has all its turns."""


def ablation_runs(section: str, model: str, seeds: int, rollouts: int | None) -> list[SweepRun]:
    """The trainings of a section: every preset, once for each seed."""
    fields = {"model": model, **_ALL, **(_SMALL if model in ROLLOUTS else {}), **(_TINY if model == "tiny" else {})}
    length = rollouts if rollouts is not None else ROLLOUTS.get(model)
    if length is not None:
        fields["max_rollouts"] = length
    runs = []
    for chosen in product(*ABLATIONS[SECTIONS[section]]):
        name = "-".join(chosen)
        words = ("--preset", f"ablation-{name}", *flags(fields))
        runs += [SweepRun(name, seed, words) for seed in seeds_of(seeds)]
    return runs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `mage-bench ablate`."""
    parser.epilog = "Example: mage-bench ablate 4.4.3 --seeds 1 --rollouts 2 --out runs/anchors"
    parser.add_argument("section", choices=tuple(SECTIONS), help="of the paper: returns, opponents, anchors")
    parser.add_argument(
        "--model",
        default="words",
        metavar="M",
        help="words (a tiny learner, the default), tiny (a trial: it learns nothing), or a folder",
    )
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="trainings of each (3)")
    parser.add_argument(
        "--rollouts",
        type=int,
        metavar="N",
        help=f"of each training (words {ROLLOUTS['words']}, tiny {ROLLOUTS['tiny']}, else the preset's)",
    )
    parser.add_argument(
        "--out",
        type=output_path,
        required=True,
        metavar="FOLDER",
        help="of the runs; the command goes on from there",
    )
    add_option(parser)


def run(arguments: argparse.Namespace) -> None:
    """Trains what is missing in the folder and writes the table to stdout."""
    runs = ablation_runs(arguments.section, arguments.model, arguments.seeds, arguments.rollouts)
    sys.stdout.write(swept(f"ablation {arguments.section}", runs, arguments.out, arguments.executor))
