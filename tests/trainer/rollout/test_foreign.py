"""A foreign text environment through the whole machine: made a meta-episode, trained on, evaluated."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"

from collections.abc import Sequence
from pathlib import Path

import gymnasium as gym
import pytest
import torch

from dev.peers.foreign_run import settings
from mage_envs.benchmarks import evaluate, game_of, make_agent, summarise, table
from mage_envs.core import Task
from mage_envs.text.generation import Completion, Prompt
from mage_envs.trainer import MAGETrainer, Trajectory
from mage_envs.trainer.backends.tiny import general_tiny
from mage_envs.trainer.backends.tokens import ChatTokenizer
from mage_envs.wrappers.rollout.scripted import ScriptedGenerator
from tests.trainer.foreign import Guess, make_guess_meta, register

ID = "foreign/Guess-Meta-v0"


@pytest.mark.parametrize("make_env", [make_guess_meta, Guess])
def test_it_is_trained_on_for_two_updates(make_env: type[Guess], tmp_path: Path) -> None:
    """As a meta-episode, and as it is: then it is one episode."""
    all_trajectories: list[Trajectory] = []

    def answer(prompt: Prompt) -> str:
        """The second member is right now and then."""
        if prompt.phase == "reflect":
            return "<remark>plan</remark>"
        guess = str((prompt.seed[2] * 3 + prompt.seed[1]) % 5)
        return f"<action>{guess}</action>" if make_env is make_guess_meta else guess

    def generator(trainer: MAGETrainer) -> ScriptedGenerator:
        return ScriptedGenerator(answer, ChatTokenizer(trainer.processing_class))  # type: ignore[arg-type]

    def keep(trainer: MAGETrainer, trajectories: Sequence[Trajectory]) -> None:
        all_trajectories.extend(trajectories)

    model = general_tiny(tmp_path / "model")
    trainer = MAGETrainer(
        model, settings(tmp_path / "run", members=2), make_env, generator=generator, on_rollout_end=keep
    )
    weights_before = [p.detach().clone() for p in trainer.model.parameters()]
    trainer.train()
    assert trainer.state.global_step == 2
    assert len(all_trajectories) == 4
    assert {t.failure for t in all_trajectories} == {None}
    assert {len(t.episodes) for t in all_trajectories} == {3 if make_env is make_guess_meta else 1}
    assert any(not torch.equal(p, q) for p, q in zip(weights_before, trainer.model.parameters(), strict=True))


def test_it_is_evaluated() -> None:
    register()
    tasks = [Task(ID, seed=seed) for seed in range(12)]
    trajectories = evaluate(make_agent("scripted:random"), tasks)
    assert {t.failure for t in trajectories} == {None}
    assert {len(t.episodes) for t in trajectories} == {3}
    assert "all" in table(summarise(trajectories, game_of(ID)))


def test_a_transformed_observation_reaches_the_model() -> None:
    contents: list[str] = []

    class Keeps:
        def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
            contents.extend(prompt.messages[-1].content for prompt in prompts)
            return [Completion("<action>2</action>") for _ in prompts]

    from mage_envs.wrappers.rollout.loop import RolloutSpec, collect

    env = gym.wrappers.TransformObservation(make_guess_meta(), lambda text: text[::-1], None)
    collect([env], Keeps(), [RolloutSpec(Task(ID, seed=1))])
    assert contents
    assert all("# Task"[::-1] in text for text in contents)
