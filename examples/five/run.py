"""Train the presets `mini-...` and measure them beside random play, an expert, and other memories.

A training and a measurement that are done are not repeated; one that was stopped continues. The table has all models
that the folder of the runs holds.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from examples.five.five_table import FIGURE, ModelResult, PanelScores, draw, table
from mage_envs.benchmarks.evaluation.run.agents import make_agent
from mage_envs.benchmarks.evaluation.run.options import EvalOptions
from mage_envs.benchmarks.evaluation.run.panel_setting import setting_from
from mage_envs.benchmarks.evaluation.scoring.scores import Summary
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.records.controls import apply_control
from mage_envs.benchmarks.runs.measuring import measure
from mage_envs.files.atomic import write_atomically

FOLDER = Path("runs/five")
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
TRAINED = "trained.json"
"""File beside a model whose training is done, with its CPU seconds."""


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What a preset is measured on."""

    name: str
    """Name of the preset without `mini-`."""
    expert: str
    panel: str | None = None
    opponents: str | None = None
    rows: int | None = None

    def setting(self, model: Path) -> Setting:
        """Return the tasks, with the options of the environment that the model was trained with."""
        options = EvalOptions(panel=self.panel, opponents=self.opponents, rows=self.rows)
        return setting_from(options, make_agent(f"model:{model}"))


ENVIRONMENTS = (
    # Chips depend on the cards, so that it takes many deals.
    Environment(name="kuhn", expert="policy:bayes:kuhn/paper,3,1", opponents="pool:kuhn/paper", rows=1000),
    Environment(
        name="tictactoe", expert="policy:bayes:tictactoe/patterns,3,1", opponents="pool:tictactoe/patterns", rows=43
    ),
    Environment(name="sokoban", expert="policy:sokoban/expert:1", rows=300),
    Environment(name="webshop", expert="policy:webshop/next", panel="webshop-test-512"),
    Environment(name="alfworld", expert="policy:alfworld/expert", panel="alfworld-eval-in-128"),
)


def train(environment: Environment, seed: int, folder: Path) -> bool:
    """Train or continue a model in `folder`/model, and return True if it is done."""
    done = folder / TRAINED
    if done.exists():
        return True
    before = _children_seconds()
    arguments = ["--preset", f"mini-{environment.name}", "--seed", str(seed), "--output_dir", str(folder / "model")]
    # A process of its own gives back all memory, and its CPU time is measured.
    status = subprocess.run([sys.executable, "-m", "mage_envs", "train", *arguments, "--resume-if-any"], check=False)
    if status.returncode:
        return False
    write_atomically(done, json.dumps({"cpu_seconds": round(_children_seconds() - before, 1)}))
    return True


def _children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def play(agent: str, setting: Setting, out: Path) -> PanelScores:
    """Play an agent, or load its records from `out`, and return its scores."""
    options = EvalOptions(agents=(agent,), out=out, resume=out.exists(), baselines=False)
    return _scores(measure(options, make_agent(agent), setting, agent).summary)


def _scores(summary: Summary) -> PanelScores:
    row, returns = summary.overall, summary.objective == "returns"
    gain = row.gain if returns else row.success_gain
    assert gain is not None
    return PanelScores(
        episodes=[asdict(episode.measure(summary.objective).estimate) for episode in row.episodes],
        gain=asdict(gain),
        unit=f"{summary.unit} per hand" if returns else "success",
        panel=summary.panel,
    )


def learn(environment: Environment, seed: int, folder: Path) -> ModelResult | None:
    """Train a model and measure it with its own memory, with none, and with that of another task.

    Args:
        environment: Environment to learn.
        seed: Seed of the training.
        folder: Folder of all runs.

    Returns:
        The result, or None if the training was stopped.
    """
    out = folder / f"{environment.name}-{seed}"
    if not train(environment, seed, out):
        return None
    model = out / "model"
    setting, played = environment.setting(model), partial(play, f"model:{model}")
    own = played(setting, out / "own")
    references = folder / environment.name
    return ModelResult(
        environment=environment.name,
        seed=seed,
        cpu_seconds=json.loads((out / TRAINED).read_text("utf-8"))["cpu_seconds"],
        own=own,
        none=played(apply_control(setting, "none", None), out / "none"),
        other=played(apply_control(setting, "other", str(out / "own")), out / "other"),
        random=play("scripted:random", setting, references / "random"),
        expert=play(environment.expert, setting, references / "expert"),
        expert_name=environment.expert,
    )


def _trained_seeds(environment: Environment, folder: Path) -> list[int]:
    """Return the seeds of an environment whose training is done."""
    names = [path.parent.name for path in folder.glob(f"{environment.name}-*/{TRAINED}")]
    return [int(name.removeprefix(f"{environment.name}-")) for name in names]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 1 if a training was stopped."""
    names = [environment.name for environment in ENVIRONMENTS]
    parser = argparse.ArgumentParser(prog="python -m examples.five", description=__doc__)
    parser.add_argument("environments", nargs="*", metavar="NAME", help=f"of {', '.join(names)} (default: all)")
    parser.add_argument(
        "--seeds", nargs="*", type=int, default=[1], metavar="S", help="seeds to train (default: 1; none without one)"
    )
    parser.add_argument("--runs", type=Path, default=FOLDER, metavar="FOLDER", help=f"runs (default: {FOLDER})")
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="folder of five.json, five.txt and five.png (default: of the runs)"
    )
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.environments if name not in names]:
        parser.error(f"{unknown[0]!r} is none of {', '.join(names)}.")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    results = []
    for environment in ENVIRONMENTS:
        if options.environments and environment.name not in options.environments:
            continue
        for seed in sorted({*options.seeds, *_trained_seeds(environment, options.runs)}):
            result = learn(environment, seed, options.runs)
            if result is None:
                print("Stopped. The same command continues.", file=sys.stderr)
                return 1
            results.append(result)
    out = options.out or options.runs
    text = table(results)
    write_atomically(out / "five.txt", text)
    write_atomically(out / "five.json", json.dumps([asdict(result) for result in results], indent=1) + "\n")
    draw(out / FIGURE, results)
    print(text, end="")
    return 0
