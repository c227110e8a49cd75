"""Results of `mage train --model words` in six small games, beside exact values.

The table compares the training's first and last rollouts and the saved model with the exact values of the game. Each
game is a run of that command with its defaults. The runs are done in this process, one after another. A finished run is
not repeated. If a run was stopped, it resumes from its newest checkpoint.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from examples.words.table import Learned, table
from mage_envs.benchmarks.demo.run import go_on, prepare
from mage_envs.benchmarks.evaluation.run.agents import SavedModelAgent
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate
from mage_envs.benchmarks.evaluation.scoring.estimates import estimate
from mage_envs.benchmarks.evaluation.suites.panels import panel, weights_of
from mage_envs.benchmarks.exact.regret import regret
from mage_envs.files.atomic import write_atomically
from mage_envs.opponents.exact import headroom
from mage_envs.progress import ProgressLine
from mage_envs.registry import headline, make_game, settings_of
from mage_envs.trainer.config.presets import WORDS

if TYPE_CHECKING:
    from mage_envs.trainer.config.mage_config import MAGEConfig
    from mage_envs.trainer.trl.mage_trainer import MAGETrainer
    from mage_envs.wrappers.rollout.trajectory import Trajectory

FOLDER = Path("runs/words")
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
PANEL_SEED = 40_000
"""Seed of the panels that measure the models. Training uses other seeds."""
TELL_EVERY = 10
"""Number of rollouts between two progress lines if stderr is not a terminal."""
CHECKPOINT_EVERY = 20
"""Number of rollouts between two checkpoints."""


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """Training run in one game. The defaults are those of the committed table."""

    game: str
    pool: str = ""
    """Name of the pool of opponents, or "" for the game's own opponents."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `MAGEConfig` that replace those of `--model words`."""
    rows: int = 250
    """Number of evaluation meta-episodes per opponent and seat."""
    seed: int = 0

    @property
    def flags(self) -> tuple[str, ...]:
        """Arguments of `mage train` for the same run."""
        names = {"env_id": f"mage/{self.game}-Meta-v0"} | ({"opponents": f"pool:{self.pool}"} if self.pool else {})
        flags = {"model": "words", **names, **self.settings, "seed": self.seed}
        return tuple(text for name, value in flags.items() for text in (f"--{name}", str(value)))

    @property
    def spec(self) -> str:
        """Specification of the opponents."""
        return f"pool:{self.pool}" if self.pool else str(settings_of(self.game).opponent)


LESSONS = (
    Lesson(game="KuhnPoker"),
    # With the usual coefficient of uniform answers, the model folds to every raise before it has learned to play after
    # a call.
    Lesson(
        game="LeducPoker",
        pool="leduc/four",
        settings={"horizon": "hand", "learning_rate": 0.002, "uniform_legal_coef": 0.4, "max_rollouts": 240},
        rows=150,
    ),
    Lesson(game="TicTacToe", pool="tictactoe/patterns", settings={"max_rollouts": 100}, rows=100),
    Lesson(game="RockPaperScissors"),
    Lesson(game="PrisonersDilemma"),
    Lesson(game="Ultimatum"),
)


@dataclass
class LessonCurve:
    """Learning curve of a run on disk, a callback for `on_rollout_end`."""

    path: Path
    """JSON file of the points."""
    rollouts: int
    """Number of rollouts of the run."""
    wins: bool
    """True if the curve counts successes, False if it uses the game's own unit per hand."""
    log: Callable[[str, bool], None]
    points: list[dict[str, Any]] = field(default_factory=list)
    """Points of the rollouts: CPU seconds (`cpu`), and the mean of each group in each episode (`groups`)."""

    def __post_init__(self) -> None:
        if self.path.exists():
            self.points = json.loads(self.path.read_text())
        self._mark = time.process_time()
        self._started: tuple[float, int] | None = None
        """Time of the end of this process's first rollout, and number of rollouts by then."""

    def __call__(self, trainer: MAGETrainer, trajectories: Sequence[Trajectory]) -> None:
        rollout = trainer.progress.rollouts
        groups: dict[int, list[list[float]]] = {}
        for trajectory in trajectories:
            if trajectory.failure is None:
                earned = [float(e.success) if self.wins else e.value / e.hands for e in trajectory.episodes]
                groups.setdefault(trajectory.group, []).append(earned)
        cpu_time = time.process_time()
        means = [np.mean(members, axis=0).round(6).tolist() for members in groups.values()]
        # If the run resumed from a checkpoint, the file may hold points of rollouts that are played again.
        self.points = [*self.points[: rollout - 1], {"cpu": round(cpu_time - self._mark, 3), "groups": means}]
        self._mark = cpu_time
        write_atomically(self.path, json.dumps(self.points))
        figures = " ".join(f"{value:+.3f}" for value in np.mean(means, axis=0))
        self.log(
            f"training: rollout {rollout}/{self.rollouts}, {figures}, {self._remaining_text(rollout)}",
            rollout % TELL_EVERY == 0,
        )

    def _remaining_text(self, rollout: int) -> str:
        current_time = time.monotonic()
        # The rate counts this process's rollouts only, because the wall time of an earlier process is not stored.
        if self._started is None:
            self._started = current_time, rollout
            return "starting"
        began, first_rollout = self._started
        return f"{(current_time - began) / (rollout - first_rollout) * (self.rollouts - rollout):.0f} s left"


def describe_lesson(lesson: Lesson) -> dict[str, Any]:
    """Return all settings that the result of a lesson depends on, as JSON values."""
    return asdict(lesson) | {"settings": WORDS}


def config_of(lesson: Lesson, folder: Path) -> MAGEConfig:
    """Return the settings that `mage train` derives from the lesson's flags, with checkpoints added."""
    from mage_envs.trainer.config.mage_config import MAGEConfig
    from mage_envs.trainer.trl.setup import exact_critic_settings

    settings = {**WORDS, **lesson.settings}
    settings |= {
        "env_id": f"mage/{lesson.game}-Meta-v0",
        "opponents": f"pool:{lesson.pool}" if lesson.pool else None,
        "output_dir": str(folder),
        "seed": lesson.seed,
        "disable_tqdm": True,
        "logging_strategy": "no",
        "save_strategy": "steps",
        # A step of the trainer is an update.
        "save_steps": CHECKPOINT_EVERY * int(settings["updates_per_rollout"]),
        "save_total_limit": 1,
    }
    config = MAGEConfig(**settings)
    # As the command does: the exact critic if the game is small and its opponents are exact.
    vars(config).update(exact_critic_settings(config))
    return config


def learn(lesson: Lesson, out: Path, log: Callable[[str, bool], None]) -> Learned | None:
    """Train or resume, measure the model, and compare it with the exact values.

    Args:
        lesson: Game and settings of the run.
        out: Folder of the model. Checkpoints are stored in `out`/training.
        log: Function that writes a progress line. Its second argument is True if the line is a milestone.

    Returns:
        The result, or None if Ctrl-C stopped the training.
    """
    from mage_envs.trainer.cli.words_model import words_model
    from mage_envs.trainer.trl.mage_trainer import MAGETrainer

    def tell(text: str, milestone: bool) -> None:
        log(f"{lesson.game}: {text}", milestone)

    folder = out / "training"
    prepare(folder, json.dumps(describe_lesson(lesson), sort_keys=True))
    config = config_of(lesson, folder)
    assert config.max_rollouts is not None
    game = make_game(lesson.game)
    wins = headline(game) == "success"
    curve = LessonCurve(folder / "curve.json", config.max_rollouts, wins, tell)
    start = words_model(folder / "words", config)
    trainer = MAGETrainer(start, config, on_rollout_end=curve)
    is_complete = go_on(trainer, folder, tell)
    # Also if the training was stopped, so that the unfinished model can be played.
    trainer.write_model(out)
    if not is_complete:
        return None
    tell("exact values", False)
    exact = headroom(
        game,
        lesson.spec,
        episodes=len(curve.points[0]["groups"][0]),
        seat=settings_of(lesson.game).seat or "alternate",
        gt=config.gamma_episode,
        objective=headline(game),
    )
    return Learned(
        game=lesson.game,
        pool=lesson.spec,
        unit="wins" if wins else game.spec.unit,
        command="mage train " + " ".join(lesson.flags),
        parameters=sum(weight.numel() for weight in trainer.accelerator.unwrap_model(trainer.model).parameters()),
        advantage=f"exact, horizon {config.horizon}" if config.advantage == "exact" else config.advantage,
        rollouts=config.max_rollouts,
        meta_episodes=config.per_device_train_batch_size,
        cpu_seconds=sum(point["cpu"] for point in curve.points),
        curve=[np.mean(point["groups"], axis=0).tolist() for point in curve.points],
        first=_rollouts(curve.points[:1]),
        last=_rollouts(curve.points[-TELL_EVERY:]),
        model=_measure_model(lesson, out, wins, tell),
        exact=exact.to_json(),
    )


def _rollouts(points: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the mean of each episode over these rollouts, with groups as clusters."""
    # Members of a group share their deals, so they are not independent. The mean of a group is one observation.
    groups = np.array([group for point in points for group in point["groups"]])
    return [asdict(estimate(values, range(len(values)))) for values in groups.T]


def _measure_model(lesson: Lesson, out: Path, wins: bool, tell: Callable[[str, bool], None]) -> list[dict[str, Any]]:
    """Return estimates of the saved model by episode on fresh deals.

    If `wins`, they are rates of success, else returns without the luck of cards and replies.
    """
    agent, weights = SavedModelAgent(out), weights_of(lesson.spec)
    env_id, kwargs = agent.settings.env_id, agent.settings.env_kwargs
    tasks = panel(env_id, tuple(weights), lesson.rows, PANEL_SEED + lesson.seed)

    def report(count: int, total: int) -> None:
        tell(f"measuring: {count}/{total} meta-episodes", count == total)

    if not wins:
        regrets = regret(agent, tasks, weights, kwargs, on_step=report)
        return [asdict(trajectory.adjusted) for trajectory in regrets.episodes if trajectory.adjusted is not None]
    trajectories = evaluate(agent, tasks, kwargs, on_step=report)
    complete = [trajectory for trajectory in trajectories if trajectory.failure is None]
    seeds, opponents = (
        [trajectory.task.seed for trajectory in complete],
        [trajectory.opponent for trajectory in complete],
    )
    return [
        asdict(
            estimate(
                [float(trajectory.episodes[k].success) for trajectory in complete],
                seeds,
                opponents,
                weights,
                proportion=True,
            )
        )
        for k in range(complete[0].num_episodes)
    ]


def _lesson(lesson: Lesson, log: Callable[[str, bool], None]) -> Learned | None:
    """Return the lesson's result. It is loaded if the lesson was finished before with the same settings."""
    out = FOLDER / lesson.game
    result_file = out / "learned.json"
    if result_file.exists():
        content = json.loads(result_file.read_text())
        if content["lesson"] == describe_lesson(lesson):
            return Learned(**content["learned"])
    learned = learn(lesson, out, log)
    if learned is not None:
        write_atomically(result_file, json.dumps({"lesson": describe_lesson(lesson), "learned": asdict(learned)}))
        shutil.rmtree(out / "training")
    return learned


def main(arguments: Sequence[str] | None = None) -> int:
    """Train in every game, and write the table and its numbers. Return 130 if Ctrl-C stopped a run."""
    names = [lesson.game for lesson in LESSONS]
    parser = argparse.ArgumentParser(prog="python -m examples.words", description=__doc__)
    parser.add_argument("games", nargs="*", metavar="GAME", help=f"games, of {', '.join(names)} (default: all)")
    parser.add_argument(
        "--out",
        type=Path,
        default=RESULTS,
        metavar="FOLDER",
        help="folder of words.txt and words.json (default: benchmarks/results)",
    )
    options = parser.parse_args(arguments)
    unknown = [name for name in options.games if name not in names]
    if unknown:
        parser.error(f"{unknown[0]!r} is none of {', '.join(names)}.")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from mage_envs.trainer.backends.model_folder import quieten

    quieten()
    log, results = ProgressLine(), []
    for lesson in LESSONS:
        if options.games and lesson.game not in options.games:
            continue
        try:
            learned = _lesson(lesson, log)
        except KeyboardInterrupt:
            learned = None
        if learned is None:
            print(f"\nStopped. The finished games are in {FOLDER}. The same command resumes the run.")
            return 130
        results.append(learned)
        print(table([learned]), flush=True)
    write_atomically(options.out / "words.txt", table(results))
    write_atomically(options.out / "words.json", json.dumps([asdict(result) for result in results], indent=1) + "\n")
    print(f"Written to {options.out}/words.txt and words.json. The models are in {FOLDER}.")
    return 0
