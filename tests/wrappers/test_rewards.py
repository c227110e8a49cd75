"""The reward of `step` is paid and recorded, also if a Gymnasium wrapper changes it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest

import mage_envs
from mage_envs.core import Task
from mage_envs.trainer import RolloutSpec, Trajectory, collect
from mage_envs.wrappers.rollout.scripted import ScriptedGenerator

OPTIONS: dict[str, Any] = {"num_episodes": 2, "memory": "reflection"}


def play(env: gym.Env[Any, Any], seed: int = 5) -> Trajectory:
    """Play a meta-episode with the last legal action at each turn."""

    def answer(prompt: Any) -> str:
        tag = prompt.info["answer_tag"]
        return f"<{tag}>{prompt.legal_actions[-1] if prompt.legal_actions else 'bet'}</{tag}>"

    [trajectory] = collect([env], ScriptedGenerator(answer), [RolloutSpec(Task("", None, None, seed))])
    assert trajectory.failure is None
    return trajectory


def kuhn(**options: Any) -> gym.Env[Any, Any]:
    return gym.make("mage/KuhnPoker-Meta-v0", opponent="kuhn/aggressive", **OPTIONS, **options)


def sums(trajectory: Trajectory) -> list[float]:
    """Return the sum of the step rewards of each episode."""
    return [
        sum(step.reward for step in trajectory.steps if step.phase == "play" and step.episode == k)
        for k in range(len(trajectory.episodes))
    ]


def test_a_wrapper_around_a_meta_episode_is_paid() -> None:
    bare = play(kuhn(hands_per_episode=3))
    double = play(gym.wrappers.TransformReward(kuhn(hands_per_episode=3), lambda reward: 2 * reward))
    assert (
        [episode.reward for episode in double.episodes]
        == [2 * episode.reward for episode in bare.episodes]
        != [0.0, 0.0]
    )
    assert [episode.value for episode in double.episodes] == [episode.value for episode in bare.episodes], (
        "in chips, as before"
    )
    assert sums(double) == pytest.approx([episode.reward for episode in double.episodes])
    shaped = play(gym.wrappers.TransformReward(kuhn(), lambda reward: reward + 1.0))
    plain = play(kuhn())
    assert [step.reward for step in shaped.steps] == [step.reward + 1.0 for step in plain.steps]
    # The reflection before the second episode is a step, too.
    turns = [sum(step.episode == k for step in plain.steps) for k in (0, 1)]
    assert [episode.reward for episode in shaped.episodes] == [
        episode.reward + count for episode, count in zip(plain.episodes, turns, strict=True)
    ]


def test_a_wrapper_inside_a_meta_episode_is_paid() -> None:
    def inside(change: Any, **options: Any) -> Trajectory:
        env = gym.make("mage/KuhnPoker-v0", opponent="kuhn/aggressive", **options)
        return play(mage_envs.MetaEpisode(gym.wrappers.TransformReward(env, change), **OPTIONS))

    bare = play(kuhn())
    double = inside(lambda reward: 2 * reward)
    assert [episode.value for episode in double.episodes] == [2 * episode.value for episode in bare.episodes]
    assert (
        [episode.reward for episode in double.episodes]
        == [2 * episode.reward for episode in bare.episodes]
        != [0.0, 0.0]
    )
    assert sums(double) == [episode.reward for episode in double.episodes]
    shaped = inside(lambda reward: reward + 1.0, hands_per_episode=2)
    plain = play(kuhn(hands_per_episode=2))
    turns = [sum(step.phase == "play" and step.episode == k for step in plain.steps) for k in (0, 1)]
    assert [episode.value for episode in shaped.episodes] == [
        episode.value + count for episode, count in zip(plain.episodes, turns, strict=True)
    ]


@pytest.mark.parametrize("name", ["KuhnPoker", "TicTacToe", "LeducPoker", "Sokoban", "Ultimatum"])
def test_without_wrappers_step_rewards_add_up_to_the_episode(name: str) -> None:
    trajectory = play(gym.make(f"mage/{name}-Meta-v0", **OPTIONS))
    assert sums(trajectory) == [episode.reward for episode in trajectory.episodes]
