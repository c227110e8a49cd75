"""The demo: a tiny transformer learns, from random weights on a CPU, to adapt to an unknown Kuhn Poker opponent.

It runs through the same `MAGETrainer`, `collect` and environments as a 4B model would. No prompt names an opponent,
the held-out opponents are never trained on, and the evaluation plays fresh deals, each from both seats.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from mage_envs.benchmarks.demo.demo_table import DemoResult, blocks, evaluate_demo
from mage_envs.cli.commands import JsonOption, print_result
from mage_envs.files.atomic import write_atomically
from mage_envs.loading.extras import requires
from mage_envs.progress import ProgressLine
from mage_envs.trainer.backends.play_settings import PlaySettings
from mage_envs.wrappers.rollout.trajectory import Trajectory

if TYPE_CHECKING:
    from mage_envs.trainer.trl.mage_trainer import MAGETrainer

ENV_ID = "mage/KuhnPoker-Meta-v0"
TRAINING_POOL = "pool:kuhn/demo"
CURVE_WINDOW = 10
"""Number of rollouts that a reported training figure averages over."""


@dataclass(frozen=True)
class DemoSettings:
    """Settings of a demo run, all that its result depends on."""

    seed: int = 0
    rollouts: int = 200
    groups: int = 32
    hands: int = 3
    reflect: bool = False
    """True if the model is trained with reflections (memory `reflection`), not with transcripts (memory `history`)."""
    critic: bool = True
    """True if training uses the exact critic (`advantage="exact"`)."""
    rows: int = 600
    """Number of evaluation meta-episodes per training opponent and seat. A held-out opponent plays a third of them."""

    @property
    def play(self) -> PlaySettings:
        """Settings of the environment and of generation, in training and in evaluation."""
        # Words and constrained sampling, because a model with random weights writes no legal action in prose.
        kwargs = {
            "memory": "reflection" if self.reflect else "history",
            "context": "conversation",
            "style": "words",
            "hands_per_episode": self.hands,
            "on_invalid": "forfeit",
            "reveal": "always",
            "length_penalty": 0.0,
        }
        return PlaySettings(ENV_ID, kwargs, max_new_tokens=REMARK_WORDS if self.reflect else 1, constrained=True)


REMARK_WORDS = 4
"""Length of a reflection in words."""


def make_trainer(settings: DemoSettings, folder: Path, on_rollout: Callable[..., None]) -> MAGETrainer:
    """Return the trainer of a run and write its start model.

    Args:
        folder: Output folder of the trainer. The start model is written to `folder`/start.
        on_rollout: Callback after each rollout, with the trainer and the trajectories.
    """
    # Imported here, so that `--help` and a wrong option do not load torch.
    import gymnasium as gym

    from mage_envs.benchmarks.evaluation.suites.panels import weights_of
    from mage_envs.games.kuhn_poker import KuhnPoker
    from mage_envs.text.words.vocabulary import vocabulary
    from mage_envs.trainer import MAGEConfig, MAGETrainer
    from mage_envs.trainer.backends.tiny import save_tiny, tiny_model, tiny_tokenizer

    play = settings.play
    tokenizer = tiny_tokenizer(vocabulary(KuhnPoker()))
    start = save_tiny(folder / "start", tiny_model(len(tokenizer), seed=settings.seed), tokenizer)
    config = MAGEConfig(
        output_dir=str(folder),
        seed=settings.seed,
        groups_per_rollout=settings.groups,
        num_generations=8,
        max_rollouts=settings.rollouts,
        updates_per_rollout="4",
        backend="cached",
        max_completion_length=play.max_new_tokens,
        constrained=True,
        reuse_sampling_logprobs=True,
        advantage="exact" if settings.critic else "member_mean",
        statistics="pooled" if settings.critic else "opponent",
        advantage_norm="mean_std",
        credit="reward",
        gamma_step=0.95,
        gamma_episode=0.6,
        learning_rate=1e-3,
        adam_beta2=0.98,
        lr_scheduler_type="warmup_stable_decay",
        # A rollout has 4 updates, so the learning rate decays over the second half of the run.
        lr_scheduler_kwargs={"num_decay_steps": 2 * settings.rollouts, "min_lr_ratio": 0.05, "decay_type": "linear"},
        uniform_legal_coef=0.06,
        uniform_legal_coef_end=0.006,
        entropy_coef=0.0,
        beta=0.0,
        use_cpu=True,
        max_tokens_per_microbatch=8192,
        disable_tqdm=True,
        logging_strategy="no",
        save_strategy="steps",
        save_steps=40,
        save_total_limit=1,
    )

    return MAGETrainer(
        start,
        config,
        lambda: gym.make(ENV_ID, disable_env_checker=True, opponent=TRAINING_POOL, **play.env_kwargs),
        weights_of(TRAINING_POOL),
        on_rollout_end=on_rollout,
    )


class Curve:
    """Learning curve on disk (chips per hand in each episode, per rollout), and progress line of the training."""

    def __init__(self, path: Path, rollouts: int, log: Callable[[str, bool], None]) -> None:
        """Load the curve if the file exists.

        Args:
            path: JSON file of the curve.
            rollouts: Number of rollouts of the run.
            log: Function that writes a progress line. Its second argument is True if the line is a milestone.
        """
        self.path = path
        self.points: list[list[float]] = json.loads(path.read_text()) if path.exists() else []
        self._rollouts = rollouts
        self._log = log
        self._started: float | None = None
        self._first = 0

    def __call__(self, trainer: MAGETrainer, trajectories: Sequence[Trajectory]) -> None:
        rollouts = trainer.progress.rollouts
        finished = [t for t in trajectories if t.failure is None]
        point = np.mean([[e.value / e.hands for e in t.episodes] for t in finished], axis=0)
        # If the run resumed from a checkpoint, the file may hold points of rollouts that are played again.
        self.points = [*self.points[: rollouts - 1], [round(float(value), 6) for value in point]]
        write_atomically(self.path, json.dumps(self.points))
        current_time = time.monotonic()
        # The first rollout of this process only starts the clock, so that loading the model does not count.
        if self._started is None:
            self._started, self._first = current_time, rollouts
            remaining = "starting"
        else:
            remaining = (
                f"{(current_time - self._started) / (rollouts - self._first) * (self._rollouts - rollouts):.0f} s left"
            )
        recent = np.mean(self.points[-CURVE_WINDOW:], axis=0)
        figures = " ".join(f"{value:+.3f}" for value in recent)
        self._log(
            f"training: rollout {rollouts}/{self._rollouts}, "
            f"chips in episodes 1 to {len(recent)}: {figures}, {remaining}",
            rollouts % 10 == 0 or rollouts == self._rollouts,
        )


def prepare(folder: Path, described: str) -> None:
    """Empty the folder of a run unless it holds a run with the same settings, which `go_on` then resumes.

    Args:
        folder: Output folder of the trainer.
        described: Settings of the run as JSON.
    """
    settings_path = folder / "settings.json"
    if not settings_path.exists() or settings_path.read_text() != described:
        shutil.rmtree(folder, ignore_errors=True)
        write_atomically(settings_path, described)


def go_on(trainer: MAGETrainer, folder: Path, log: Callable[[str, bool], None]) -> bool:
    """Train, and resume from the newest sound checkpoint in `folder` if there is one.

    Args:
        log: Function that writes a progress line. Its second argument is True if the line is a milestone.

    Returns:
        False if Ctrl-C stopped the training, True otherwise.
    """
    from mage_envs.trainer.runs.run_folder import newest_checkpoint

    checkpoint, passed = newest_checkpoint(folder)
    for line in passed:
        log(f"training: {line}", True)
    if checkpoint is not None:
        log(f"training: resuming from {checkpoint.name}", True)
    try:
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    except KeyboardInterrupt:
        return False
    return True


def train(settings: DemoSettings, out: Path, log: Callable[[str, bool], None]) -> list[list[float]] | None:
    """Train the model and save it to `out`. An interrupted run with the same settings is resumed.

    Args:
        out: Folder of the model. Checkpoints and the curve are stored in `out`/training.
        log: Function that writes a progress line. Its second argument is True if the line is a milestone.

    Returns:
        The learning curve, or None if Ctrl-C stopped the run. The model is saved in both cases.
    """
    folder = out / "training"
    prepare(folder, json.dumps(asdict(settings), sort_keys=True))
    curve = Curve(folder / "curve.json", settings.rollouts, log)
    trainer = make_trainer(settings, folder, curve)
    is_finished = go_on(trainer, folder, log)
    trainer.write_model(out)
    return curve.points if is_finished else None


def run(settings: DemoSettings, out: Path, log: Callable[[str, bool], None]) -> DemoResult | None:
    """Train and evaluate the model, and write all results to `out`.

    Args:
        out: Folder of the model, the figure and the numbers.
        log: Function that writes a progress line. Its second argument is True if the line is a milestone.

    Returns:
        The measurements, or None if Ctrl-C stopped the training.
    """
    from mage_envs.trainer.backends.model_folder import quieten

    quieten()
    start = time.monotonic()
    curve = train(settings, out, log)
    if curve is None:
        return None
    trained = time.monotonic() - start
    result = evaluate_demo(out, settings.rows, settings.seed, settings.critic, on_step=log)
    write_atomically(out / "result.json", json.dumps(result.to_json(), indent=1) + "\n")
    from mage_envs.benchmarks.evaluation.tables.summary_table import adaptation_figure

    # Only the last episode's curve is drawn: it is the one in which the model can use what it has seen.
    smoothed = [
        (float(i + 1), float(np.mean([p[-1] for p in curve[max(0, i - CURVE_WINDOW + 1) : i + 1]])))
        for i in range(len(curve))
    ]
    adaptation_figure(out / "adaptation.png", result.training, smoothed, result.judged.curves())
    # After the figure, so that a run which is interrupted before can still resume from its checkpoints.
    shutil.rmtree(out / "training")
    log(f"trained in {trained:.0f} s, evaluated in {time.monotonic() - start - trained:.0f} s", True)
    return result


def command(
    reflect: Annotated[bool, typer.Option(help="Train with reflections, in a shorter run")] = False,
    plain: Annotated[bool, typer.Option(help="Train on sampled returns only, without the exact critic")] = False,
    seed: Annotated[int, typer.Option(metavar="S", help="Seed of the run (default: 0)")] = 0,
    rollouts: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Number of training rollouts (default: 200, 60 with --reflect)"),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=3,
            help="Number of evaluation meta-episodes per opponent and seat (default: 600, 200 with --reflect)",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder of the results (default: runs/demo, with -reflect or -plain)"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Train a tiny model to adapt on this machine, and compare it with exact references.

    It takes minutes on a CPU.

    Example: mage demo --rollouts 20 --rows 30 --out runs/try
    """
    critic = not plain and not reflect
    settings = DemoSettings(
        seed,
        rollouts or (60 if reflect else 200),
        reflect=reflect,
        critic=critic,
        rows=rows or (200 if reflect else 600),
    )
    if reflect:
        name = "demo-reflect"
    elif plain:
        name = "demo-plain"
    else:
        name = "demo"
    folder = out or Path("runs") / name
    # The start model is made here, so a look-up on the hub would only delay a machine without network access.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        with requires("The demo", "train,report"):
            result = run(settings, folder, ProgressLine())
    except KeyboardInterrupt:
        result = None
    if result is None:
        print(f"\nStopped. The unfinished model is in {folder}. The same command resumes the training.")
        raise SystemExit(130)
    print_result(result.to_json(), blocks(result), as_json)
    print(f"\nFigure: {folder}/adaptation.png   Numbers: {folder}/result.json   Model: {folder}")
    print(f"Play against it:  mage play mage/KuhnPoker-v0 --opponents checkpoint:{folder}")
