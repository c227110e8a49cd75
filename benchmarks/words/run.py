"""What `mage-train --model words` learns in six small games: the training's first and last rollouts and the saved
model, beside the exact values of what can be earned.

Each game is a run of that command with its defaults, in this process and one after another; what is done is not done
again, and a run that was stopped goes on from its newest checkpoint.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.demo.run import Log, go_on, prepare
from benchmarks.evaluation.agents import SavedModelAgent
from benchmarks.evaluation.estimates import estimate
from benchmarks.evaluation.evaluate import evaluate
from benchmarks.evaluation.scores import headline
from benchmarks.evaluation.suites import panel, weights_of
from benchmarks.exact.regret import regret
from benchmarks.words.table import Learned, table
from mage_commands import OneLineParser
from mage_envs.durable import write_atomically
from mage_envs.registry import make_game, settings_of
from opponents.exact import headroom
from trainer.presets import WORDS

if TYPE_CHECKING:
    from trainer.config import MAGEConfig
    from trainer.mage_trainer import MAGETrainer
    from trainer.trajectory import Trajectory

FOLDER = Path("runs/words")
RESULTS = Path(__file__).parents[1] / "results"
PANEL_SEED = 40_000
"""Seed of the panels on which the models are measured; the training's seeds are others."""
TELL_EVERY = 10
"""Rollouts between two lines of progress where there is no terminal."""
CHECKPOINT_EVERY = 20


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """A game to learn, and how much of it; the defaults are those of the committed table."""

    game: str
    pool: str = ""
    """The opponents; the game's own where none are named."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `MAGEConfig` in place of those that `--model words` sets."""
    rows: int = 250
    """Meta-episodes per opponent and seat on which the model is measured."""
    seed: int = 0

    @property
    def flags(self) -> tuple[str, ...]:
        """What `mage-train` is told."""
        named = {"env_id": f"mage/{self.game}-Meta-v0"} | ({"opponents": f"pool:{self.pool}"} if self.pool else {})
        chosen = {"model": "words", **named, **self.settings, "seed": self.seed}
        return tuple(text for name, value in chosen.items() for text in (f"--{name}", str(value)))

    @property
    def spec(self) -> str:
        """The opponents as they are named everywhere."""
        return f"pool:{self.pool}" if self.pool else str(settings_of(self.game).opponent)


LESSONS = (
    Lesson(game="KuhnPoker"),
    # With the usual pull to uniform answers it folds to every raise before it has learned what to do after a call.
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
    """What each rollout of a run earned, kept on disk."""

    path: Path
    rollouts: int
    wins: bool
    """Whether successes are counted, or the game's own unit per hand."""
    log: Callable[[str, bool], None]
    points: list[dict[str, Any]] = field(default_factory=list)
    """CPU seconds, and the mean of each group in each episode."""

    def __post_init__(self) -> None:
        if self.path.exists():
            self.points = json.loads(self.path.read_text())
        self._mark = time.process_time()
        self._started: tuple[float, int] | None = None
        """When the first rollout of this process was done, and which one it was."""

    def __call__(self, trainer: MAGETrainer, trajectories: Sequence[Trajectory]) -> None:
        done = trainer.progress.rollouts
        groups: dict[int, list[list[float]]] = {}
        for played in trajectories:
            if played.failure is None:
                earned = [float(e.success) if self.wins else e.value / e.hands for e in played.episodes]
                groups.setdefault(played.group, []).append(earned)
        now = time.process_time()
        means = [np.mean(members, axis=0).round(6).tolist() for members in groups.values()]
        self.points = [*self.points[: done - 1], {"cpu": round(now - self._mark, 3), "groups": means}]
        self._mark = now
        write_atomically(self.path, json.dumps(self.points))
        figures = " ".join(f"{value:+.3f}" for value in np.mean(means, axis=0))
        self.log(f"training: rollout {done}/{self.rollouts}, {figures}, {self._left(done)}", done % TELL_EVERY == 0)

    def _left(self, done: int) -> str:
        now = time.monotonic()
        if self._started is None:
            self._started = now, done
            return "starting"
        began, first = self._started
        return f"{(now - began) / (done - first) * (self.rollouts - done):.0f} s left"


def described(lesson: Lesson) -> dict[str, Any]:
    """What a run of the lesson depends on, as plain JSON values."""
    return asdict(lesson) | {"settings": WORDS}


def config_of(lesson: Lesson, folder: Path) -> MAGEConfig:
    """The settings that `mage-train` would come to with the lesson's flags, and checkpoints."""
    from trainer.config import MAGEConfig
    from trainer.setup import prefer_exact

    chosen = {**WORDS, **lesson.settings}
    chosen |= {
        "env_id": f"mage/{lesson.game}-Meta-v0",
        "opponents": f"pool:{lesson.pool}" if lesson.pool else None,
        "output_dir": str(folder),
        "seed": lesson.seed,
        "disable_tqdm": True,
        "logging_strategy": "no",
        "save_strategy": "steps",
        "save_steps": CHECKPOINT_EVERY * int(chosen["updates_per_rollout"]),
        "save_total_limit": 1,
    }
    config = MAGEConfig(**chosen)
    prefer_exact(config)
    return config


def learn(lesson: Lesson, out: Path, log: Callable[[str, bool], None]) -> Learned | None:
    """Trains (or goes on), measures the model, and compares; None when Ctrl-C stopped the training."""
    from trainer.mage_trainer import MAGETrainer
    from trainer.words import words_model

    def tell(text: str, milestone: bool) -> None:
        log(f"{lesson.game}: {text}", milestone)

    folder = out / "training"
    prepare(folder, json.dumps(described(lesson), sort_keys=True))
    config = config_of(lesson, folder)
    assert config.max_rollouts is not None
    game = make_game(lesson.game)
    wins = headline(game) == "success"
    curve = LessonCurve(folder / "curve.json", config.max_rollouts, wins, tell)
    start = words_model(folder / "words", config, warm_start=0)
    trainer = MAGETrainer(start, config, on_rollout_end=curve)
    done = go_on(trainer, folder, tell)
    trainer.write_model(out)
    if not done:
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
        unit="wins" if wins else game.facts.unit,
        command="mage-train " + " ".join(lesson.flags),
        parameters=sum(weight.numel() for weight in trainer.accelerator.unwrap_model(trainer.model).parameters()),
        advantage=f"exact, horizon {config.horizon}" if config.advantage == "exact" else config.advantage,
        rollouts=config.max_rollouts,
        meta_episodes=config.per_device_train_batch_size,
        cpu_seconds=sum(point["cpu"] for point in curve.points),
        curve=[np.mean(point["groups"], axis=0).tolist() for point in curve.points],
        first=_rollouts(curve.points[:1]),
        last=_rollouts(curve.points[-TELL_EVERY:]),
        model=_measured(lesson, out, wins, tell),
        exact=exact.to_json(),
    )


def _rollouts(points: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The mean by episode over these rollouts, groups being clusters."""
    groups = np.array([group for point in points for group in point["groups"]])
    return [asdict(estimate(values, range(len(values)))) for values in groups.T]


def _measured(lesson: Lesson, out: Path, wins: bool, tell: Callable[[str, bool], None]) -> list[dict[str, Any]]:
    """The saved model by episode on fresh deals: its wins, or what it earns without the luck of cards and replies."""
    agent, weights = SavedModelAgent(out), weights_of(lesson.spec)
    env_id, kwargs = agent.settings.env_id, agent.settings.env_kwargs
    tasks = panel(env_id, tuple(weights), lesson.rows, PANEL_SEED + lesson.seed)

    def report(done: int, total: int) -> None:
        tell(f"measuring: {done}/{total} meta-episodes", done == total)

    if not wins:
        found = regret(agent, tasks, weights, kwargs, on_step=report)
        return [asdict(one.adjusted) for one in found.episodes if one.adjusted is not None]
    played = evaluate(agent, tasks, kwargs, on_step=report)
    kept = [one for one in played if one.failure is None]
    seeds, met = [one.task.seed for one in kept], [one.opponent for one in kept]
    return [
        asdict(estimate([float(one.episodes[k].success) for one in kept], seeds, met, weights, proportion=True))
        for k in range(kept[0].num_episodes)
    ]


def _lesson(lesson: Lesson, log: Callable[[str, bool], None]) -> Learned | None:
    """The lesson's result; one that was done with these settings is not done again."""
    out = FOLDER / lesson.game
    kept = out / "learned.json"
    if kept.exists():
        found = json.loads(kept.read_text())
        if found["lesson"] == described(lesson):
            return Learned(**found["learned"])
    learned = learn(lesson, out, log)
    if learned is not None:
        write_atomically(kept, json.dumps({"lesson": described(lesson), "learned": asdict(learned)}))
        shutil.rmtree(out / "training")
    return learned


def main(arguments: Sequence[str] | None = None) -> int:
    """Learns every game, and writes the table and its numbers."""
    names = [lesson.game for lesson in LESSONS]
    parser = OneLineParser(prog="python -m benchmarks.words", description=__doc__)
    parser.add_argument("games", nargs="*", metavar="GAME", help=f"some of {', '.join(names)}; without, all")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FOLDER", help="where words.txt and .json go")
    chosen = parser.parse_args(arguments)
    unknown = [name for name in chosen.games if name not in names]
    if unknown:
        parser.error(f"{unknown[0]!r} is none of {', '.join(names)}.")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from trainer.quiet import quieten

    quieten()
    log, found = Log(), []
    for lesson in LESSONS:
        if chosen.games and lesson.game not in chosen.games:
            continue
        try:
            learned = _lesson(lesson, log)
        except KeyboardInterrupt:
            learned = None
        if learned is None:
            print(f"\nStopped. What is done lies in {FOLDER}; the same command goes on.")
            return 130
        found.append(learned)
        print(table([learned]), flush=True)
    write_atomically(chosen.out / "words.txt", table(found))
    write_atomically(chosen.out / "words.json", json.dumps([asdict(one) for one in found], indent=1) + "\n")
    print(f"Written to {chosen.out}/words.txt and words.json; the models lie in {FOLDER}.")
    return 0
