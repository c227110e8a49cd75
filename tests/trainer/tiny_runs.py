"""Tiny training runs on Kuhn Poker, for the tests of the trainer."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym

from mage_envs.core import Task
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.text.words.vocabulary import vocabulary
from mage_envs.trainer import MAGEConfig, MAGETrainer, Step, Trajectory
from mage_envs.trainer.backends.cached import CachedGenerator
from mage_envs.trainer.backends.local_model import Sampling
from mage_envs.trainer.backends.tiny import save_tiny, tiny_model, tiny_tokenizer
from mage_envs.trainer.backends.tokens import ChatTokenizer
from mage_envs.wrappers.rollout.scripted import ScriptedGenerator
from mage_envs.wrappers.rollout.trajectory import EpisodeResult

POOL = {"kuhn/soft-conservative": 1.0, "kuhn/soft-aggressive": 1.0}


def flags(**settings: Any) -> list[str]:
    """Settings as arguments of the training command."""
    return [word for name, value in settings.items() for word in (f"--{name}", str(value))]


TINY = flags(
    model="tiny",
    num_generations=2,
    max_completion_length=4,
    env_kwargs='{"max_turns": 1}',
    use_cpu="true",
    disable_tqdm="true",
)
"""Arguments of a training run on a tiny model that takes seconds."""


def save_model(folder: Path, seed: int = 0) -> str:
    """A two-layer Qwen3 of width 32 over the Kuhn words."""
    tokenizer = tiny_tokenizer(vocabulary(KuhnPoker()))
    model = tiny_model(len(tokenizer), hidden=32, heads=2, initializer_range=0.3, seed=seed)
    return save_tiny(folder, model, tokenizer)


def make_env() -> gym.Env[str, str]:
    return gym.make(
        "mage/KuhnPoker-Meta-v0",
        disable_env_checker=True,
        memory="history",
        context="conversation",
        style="words",
        hands_per_episode=2,
        on_invalid="forfeit",
        num_episodes=2,
    )


def make_config(folder: Path, **changes: Any) -> MAGEConfig:
    settings: dict[str, Any] = {
        "output_dir": str(folder),
        "groups_per_rollout": 3,
        "num_generations": 2,
        "max_rollouts": 2,
        "updates_per_rollout": 2,
        "max_completion_length": 1,
        "advantage": "member_mean",
        "learning_rate": 1e-3,
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
        "use_cpu": True,
    }
    return MAGEConfig(**(settings | changes))


def make_cached_generator(trainer: MAGETrainer, constrained: bool = False) -> CachedGenerator:
    tokens = ChatTokenizer(trainer.processing_class)  # type: ignore[arg-type]
    return CachedGenerator(trainer.model, tokens, Sampling(1, constrained=constrained))  # type: ignore[arg-type]


def make_scripted_generator(trainer: MAGETrainer) -> ScriptedGenerator:
    """Return a generator that plays by the prompt's sampling key: the same rows in any number of processes."""
    tokens = ChatTokenizer(trainer.processing_class)  # type: ignore[arg-type]
    return ScriptedGenerator(lambda prompt: prompt.legal_actions[sum(prompt.seed) % len(prompt.legal_actions)], tokens)


def make_trainer(model: Any, folder: Path, generator: Any = make_cached_generator, **changes: Any) -> MAGETrainer:
    opponents = changes.pop("opponents", POOL)
    parts = ("eval_tasks", "peft_config", "callbacks", "on_rollout_end", "processing_class")
    trainer_parts = {name: changes.pop(name) for name in parts if name in changes}
    return MAGETrainer(model, make_config(folder, **changes), make_env, opponents, generator=generator, **trainer_parts)


def trajectory(steps: Sequence[Step], group: int = 0, member: int = 0, failure: str | None = None) -> Trajectory:
    """A meta-episode of one episode around the given steps."""
    result = EpisodeResult(reward=10.0, value=1.0, hands=1, success=True, timeout=False, seats=(0,))
    return Trajectory(
        task=Task("test"),
        opponent="x",
        group=group,
        member=member,
        steps=tuple(steps),
        episodes=(result,),
        num_episodes=1,
        failure=failure,
    )


def step(
    prompt: Sequence[int],
    reply: Sequence[int],
    *,
    truncated: bool = False,
    logprobs: tuple[float, ...] | None = None,
    legal: tuple[tuple[int, ...], ...] = (),
) -> Step:
    return Step(
        episode=0,
        phase="play",
        turn=0,
        hand=0,
        anchor="x",
        prompt_ids=tuple(prompt),
        completion_ids=tuple(reply),
        truncated=truncated,
        logprobs=logprobs,
        legal_ids=legal,
    )
