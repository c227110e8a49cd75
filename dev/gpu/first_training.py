"""Trainings of the first minutes on a GPU: a game that is learned, a resumed run, a step beside TRL's trainer."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dev.gpu.first_session import Measurement
from dev.gpu.numerics import random_model, synchronize
from mage_envs.trainer.config.model_shapes import KNOWN

if TYPE_CHECKING:
    import torch

    from mage_envs.trainer.config.mage_config import MAGEConfig
    from mage_envs.trainer.trl.mage_trainer import MAGETrainer

LAST_ROLLOUTS = 10
"""Rollouts at each end of a training whose values are averaged."""
GAME = "Ultimatum"
EPISODES = 3


def words_config(session: Measurement, folder: Path, **changes: Any) -> MAGEConfig:
    """Return the settings of `mage train --model words` in the ultimatum game, on the session's device."""
    from mage_envs.trainer import MAGEConfig
    from mage_envs.trainer.config.presets import WORDS

    fields: dict[str, Any] = {**WORDS, "env_kwargs": json.loads(WORDS["env_kwargs"])}
    fields |= {
        "output_dir": str(folder),
        "env_id": f"mage/{GAME}-Meta-v0",
        "num_episodes": EPISODES,
        "groups_per_rollout": session.sizes.groups,
        "max_rollouts": session.sizes.rollouts,
        "learning_rate": session.sizes.learning_rate,
        "max_tokens_per_microbatch": 65_536,
        "use_cpu": session.on_cpu,
        "bf16": False,
        "disable_tqdm": True,
        "report_to": "none",
        "logging_strategy": "no",
    }
    return MAGEConfig(**fields | changes)


def save_word_model(session: Measurement, folder: Path, config: MAGEConfig) -> tuple[str, int]:
    """Save a word-level transformer with random weights for the game. Return its folder and number of weights."""
    from mage_envs.text.words.vocabulary import vocabulary
    from mage_envs.trainer.backends.tiny import save_tiny, tiny_model, tiny_tokenizer
    from mage_envs.trainer.trl.setup import env_maker

    sizes = session.sizes
    tokenizer = tiny_tokenizer(vocabulary(env_maker(config)().get_wrapper_attr("game")))
    # The spread of the demo's model (.1 at 64 hidden values), scaled to the width.
    spread = 0.8 / sizes.hidden**0.5
    model = tiny_model(len(tokenizer), sizes.hidden, sizes.layers, sizes.heads, spread, max_positions=8192)
    return save_tiny(folder, model, tokenizer), sum(weight.numel() for weight in model.parameters())


def exact_lines() -> dict[str, list[float]]:
    """Return the exact values per episode against the game's default opponents."""
    from mage_envs.opponents.exact import headroom
    from mage_envs.opponents.pools import as_pool
    from mage_envs.registry import make_game, settings_of

    settings = settings_of(GAME)
    seat = settings.seat or "alternate"
    values = headroom(make_game(GAME), as_pool(settings.opponent), episodes=EPISODES, hands=1, seat=seat)
    lines = {"no memory": values.blind_per_episode, "best learner": values.per_episode["sum"]}
    return {name: [round(value, 4) for value in line] for name, line in lines.items()}


def learn_game(session: Measurement) -> None:
    """Train a word-level transformer from random weights, and report its values per episode, early and late."""
    from mage_envs.trainer import MAGETrainer

    values: list[np.ndarray] = []
    counts: list[int] = []

    def record_values(_: Any, trajectories: Sequence[Any]) -> None:
        counts.append(len(trajectories))
        values.append(np.mean([[episode.value for episode in t.episodes] for t in trajectories], axis=0))

    with tempfile.TemporaryDirectory() as scratch:
        config = words_config(session, Path(scratch) / "run")
        model, weights = save_word_model(session, Path(scratch) / "model", config)
        trainer = MAGETrainer(model, config, on_rollout_end=record_values)
        start_time = time.perf_counter()
        trainer.train()
        seconds = time.perf_counter() - start_time
    count = min(LAST_ROLLOUTS, len(values))
    early, late = np.mean(values[:count], axis=0), np.mean(values[-count:], axis=0)
    session.report(
        "learning",
        game=GAME,
        weights=weights,
        rollouts=len(values),
        meta_episodes=sum(counts),
        seconds=round(seconds, 1),
        first_rollouts=[round(float(value), 3) for value in early],
        last_rollouts=[round(float(value), 3) for value in late],
        exact=exact_lines(),
        device=str(trainer.accelerator.device),
    )


def weights_of(trainer: MAGETrainer) -> list[torch.Tensor]:
    """Return the weights of a trainer's model."""
    model: Any = trainer.model
    return list(model.parameters())


def resume_run(session: Measurement) -> None:
    """Report the largest difference of weights between an unbroken run and one that is resumed from a checkpoint."""
    from mage_envs.trainer import MAGETrainer

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        changes: dict[str, Any] = {
            "groups_per_rollout": 4,
            "max_rollouts": 4,
            "save_strategy": "steps",
            "save_steps": 8,
        }
        config = words_config(session, folder / "unbroken", **changes)
        model, _ = save_word_model(session, folder / "model", config)
        unbroken = MAGETrainer(model, config)
        unbroken.train()
        resumed = MAGETrainer(model, words_config(session, folder / "resumed", **changes))
        resumed.train(resume_from_checkpoint=str(folder / "unbroken" / "checkpoint-8"))
        pairs = zip(weights_of(unbroken), weights_of(resumed), strict=True)
        largest = max(float((weights - resumed_weights).detach().abs().max()) for weights, resumed_weights in pairs)
        session.report("resume", updates=resumed.state.global_step, largest_difference=largest)


# -- speed -----------------------------------------------------------------------------------------------------


def step_times(session: Measurement, train: Callable[[Any], None]) -> Iterator[tuple[str, Any]]:
    """Train, and yield the seconds of each step, the rate of reply tokens, and the peak memory."""
    import torch
    from transformers import TrainerCallback

    seconds: list[float] = []
    begun = 0.0

    class StepClock(TrainerCallback):
        """Measures the steps of a trainer, rollouts included."""

        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            nonlocal begun
            synchronize(session.device)
            begun = time.perf_counter()

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            synchronize(session.device)
            seconds.append(round(time.perf_counter() - begun, 3))

    if not session.on_cpu:
        torch.cuda.reset_peak_memory_stats()
    train(StepClock())
    calls = 8 * session.sizes.speed_groups
    yield "seconds_per_step", seconds
    yield "reply_tokens_per_s", round(calls * session.sizes.reply_tokens / min(seconds))
    yield "peak_gib", None if session.on_cpu else round(torch.cuda.max_memory_allocated() / 2**30, 2)


def compare_trainers(session: Measurement) -> None:
    """Report steps of MAGETrainer and of TRL's GRPOTrainer in turns, on the same model, prompt and reply length."""
    import gymnasium as gym
    from datasets import Dataset
    from transformers import PrinterCallback
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    from mage_envs.trainer import MAGEConfig, MAGETrainer
    from mage_envs.trainer.backends.tiny import byte_tokenizer, save_tiny

    sizes = session.sizes
    make_env = partial(
        gym.make,
        "mage/Ultimatum-Meta-v0",
        num_episodes=1,
        opponent="ultimatum/reserve:3",
        length_penalty=0.0,
        on_invalid="forfeit",
    )
    _, info = make_env().reset(seed=0)
    common: dict[str, Any] = {
        "max_completion_length": sizes.reply_tokens,
        "num_generations": 8,
        "beta": 0.0,
        "learning_rate": 1e-6,
        "report_to": "none",
        "save_strategy": "no",
        "logging_strategy": "no",
        "disable_tqdm": True,
        "use_cpu": session.on_cpu,
        "bf16": not session.on_cpu,
        "gradient_checkpointing": not session.on_cpu,
        "max_steps": sizes.speed_steps,
    }
    with tempfile.TemporaryDirectory() as scratch:
        model = save_tiny(Path(scratch) / "model", random_model(KNOWN[sizes.shape]), byte_tokenizer())

        def train_ours(clock: Any) -> None:
            config = MAGEConfig(
                output_dir=str(Path(scratch) / "ours"),
                groups_per_rollout=sizes.speed_groups,
                updates_per_rollout="1",
                advantage="grpo",
                **common,
            )
            MAGETrainer(model, config, make_env, callbacks=[clock]).train()

        def train_theirs(clock: Any) -> None:
            config = GRPOConfig(
                output_dir=str(Path(scratch) / "theirs"),
                per_device_train_batch_size=8 * sizes.speed_groups,
                **common,
            )
            prompts = [{"prompt": info["messages"]}] * (sizes.speed_groups * sizes.speed_steps)
            data = Dataset.from_list(prompts)
            trainer = GRPOTrainer(model, length_reward, config, train_dataset=data, callbacks=[clock])
            # Otherwise the callback would print the logs between the lines of results.
            trainer.remove_callback(PrinterCallback)
            trainer.train()

        for name, train in [("MAGETrainer", train_ours), ("GRPOTrainer", train_theirs)] * sizes.repeats:
            measured = dict(step_times(session, train))
            session.report(
                "speed", trainer=name, calls=8 * sizes.speed_groups, reply_tokens=sizes.reply_tokens, **measured
            )
            session.release()


def length_reward(completions: Sequence[Any], **_: Any) -> list[float | None]:
    """Return a reward that differs between replies, so that TRL's advantages are not all zero."""
    return [float(len(completion[-1]["content"]) % 7) for completion in completions]
