"""Training run of the tiny model with the suite's own trainer, followed by an exact evaluation."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from transformers import PreTrainedModel

from examples.objectives.exact_play import ExactPlay
from examples.objectives.study import DECAY, EPISODES, MEMBERS, TRAINING, StudyRun
from mage_envs.trainer import MAGEConfig, MAGETrainer
from mage_envs.trainer.backends.model_folder import quieten
from mage_envs.trainer.cli.words_model import words_model
from mage_envs.trainer.config.presets import WORDS
from mage_envs.trainer.trl.backend_registry import chat_tokenizer
from mage_envs.wrappers.rollout.trajectory import Trajectory


def config_of(run: StudyRun, folder: Path) -> MAGEConfig:
    """Return the trainer's settings for a run with the output folder `folder`."""
    game = run.game
    settings: dict[str, Any] = {**WORDS, **TRAINING, **game.training, **run.learner.settings}
    rollouts = settings["max_rollouts"] if run.rollouts is None else run.rollouts
    updates = rollouts * int(settings["updates_per_rollout"])
    # A dictionary, because later keys may repeat a field of the earlier settings.
    return MAGEConfig(
        **{
            **settings,
            "output_dir": str(folder),
            "seed": run.seed,
            "env_id": game.env_id,
            "env_kwargs": {"on_invalid": "forfeit", "length_penalty": 0.0, **game.options},
            "num_episodes": EPISODES,
            "num_generations": MEMBERS,
            "max_rollouts": rollouts,
            "lr_scheduler_kwargs": {
                "num_decay_steps": int(DECAY * updates),
                "min_lr_ratio": 0.05,
                "decay_type": "linear",
            },
            "disable_tqdm": True,
            "logging_strategy": "no",
        }
    )


class Learning:
    """Work of one process: does runs one after the other. The exact play of a game is built once and then reused."""

    def __init__(self) -> None:
        quieten()
        # Parallel runs use one core each. Also, sums of floats would depend on the number of threads.
        torch.set_num_threads(1)
        self._plays: dict[str, ExactPlay] = {}

    def __call__(self, run: StudyRun) -> dict[str, Any]:
        """Train and evaluate the model.

        Returns:
            JSON values: `episodes` (exact return of each episode), `curve` (mean returns of each rollout) and
            `seconds` (CPU seconds of the training).
        """
        curve: list[list[float]] = []

        def note(trainer: MAGETrainer, trajectories: Sequence[Trajectory]) -> None:
            earned = [
                [episode.value / episode.hands for episode in trajectory.episodes]
                for trajectory in trajectories
                if trajectory.failure is None
            ]
            curve.append([round(float(value), 4) for value in np.mean(earned, axis=0)])

        with tempfile.TemporaryDirectory(prefix="mage-objectives-") as name:
            folder, began = Path(name), time.process_time()
            config = config_of(run, folder)
            start = words_model(folder / "start", config)
            trainer = MAGETrainer(start, config, on_rollout_end=note)
            trainer.train()
            seconds = time.process_time() - began
            # The play depends on the game and not on the learner, so the first run of a game builds it for all.
            if run.game.name not in self._plays:
                tokens = chat_tokenizer(trainer)
                decisions = run.game.decisions * EPISODES
                self._plays[run.game.name] = ExactPlay(config, tokens, decisions, run.game.answers)
            values = self._plays[run.game.name].values(cast(PreTrainedModel, trainer.model))
        return {"episodes": [round(float(value), 6) for value in values], "curve": curve, "seconds": round(seconds, 1)}
