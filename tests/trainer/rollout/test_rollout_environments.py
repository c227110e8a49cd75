"""`collect` on environments without meta-episodes, and meta-episodes around foreign ones."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest

from mage_envs.core import Task
from mage_envs.step_checks import BadResult
from mage_envs.text.generation import Completion, Message, Prompt
from mage_envs.wrappers import MetaEpisode
from mage_envs.wrappers.rollout.loop import RolloutSpec, collect
from tests.trainer.foreign import Guess, ToldGuess
from tests.trainer.rollouts import Asked, make, specs

# -- environments without meta-episodes -------------------------------------------------------------------------


def bisect(prompt: Prompt) -> Completion:
    """Answers 2, then below or above it."""
    text = prompt.messages[-1].content
    guess = "3" if "Too low." in text else "1" if "Too high." in text else "2"
    return Completion(guess if "<action>" not in text else f"<action>{guess}</action>")


@pytest.mark.parametrize("env_type", [Guess, ToldGuess])
def test_a_plain_text_environment_is_played_as_one_episode(env_type: type[Guess]) -> None:
    backend = Asked(bisect)
    trajectories = collect([env_type()], backend, [RolloutSpec(Task("", seed=seed)) for seed in range(20)])
    assert {len(t.steps) for t in trajectories} == {1, 2, 3}
    for trajectory in trajectories:
        [episode] = trajectory.episodes
        assert (trajectory.num_episodes, trajectory.opponent, trajectory.failure) == (1, "", None)
        assert episode.success is (episode.reward == 1.0)
        assert [step.turn for step in trajectory.steps] == list(range(len(trajectory.steps)))
        assert sum(step.reward for step in trajectory.steps) == episode.reward
        assert episode.timeout is not episode.success
    assert backend.prompts[0].messages == (Message("user", "Guess a number from 0 to 4."),)


@pytest.mark.parametrize("env_type", [Guess, ToldGuess])
@pytest.mark.parametrize("deal", ["fresh", "replay"])
def test_a_foreign_environment_becomes_a_meta_episode(env_type: type[Guess], deal: str) -> None:
    env = MetaEpisode(env_type(), rules="Guess the number.", deal=deal, memory="both")
    numbers = []

    def guess(prompt: Prompt) -> Completion:
        numbers.append(env.env.unwrapped.number)  # type: ignore[attr-defined]
        return Completion("<remark>Halve it.</remark>") if prompt.phase == "reflect" else bisect(prompt)

    trajectories = collect([env], Asked(guess), [RolloutSpec(Task("", seed=seed)) for seed in range(10)])
    for trajectory in trajectories:
        assert (trajectory.failure, len(trajectory.episodes), trajectory.num_episodes) == (None, 3, 3)
        plays = [step for step in trajectory.steps if step.phase == "play"]
        assert len(trajectory.steps) - len(plays) == 2
        assert all(episode.success is (episode.reward == 1.0) for episode in trajectory.episodes)
        assert sum(step.reward for step in plays) == sum(episode.reward for episode in trajectory.episodes)
    firsts = [t.episodes[0].reward for t in trajectories]
    assert all(
        (t.episodes[2].reward == first_reward) for t, first_reward in zip(trajectories, firsts, strict=True)
    ) is (deal == "replay")


def test_a_foreign_environment_that_never_ends_times_out() -> None:
    class Endless(gym.Env[str, str]):
        def reset(self, **options: Any) -> tuple[str, dict[str, Any]]:
            return "Go on.", {}

        def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
            return "Go on.", 0.5, False, False, {}

    env = MetaEpisode(Endless(), rules="Go on.", max_turns=4, num_episodes=2, memory="none")
    [trajectory] = collect([env], Asked(lambda prompt: Completion("on")), [RolloutSpec(Task("", seed=1))])
    assert [(e.reward, e.timeout, e.success) for e in trajectory.episodes] == [(2.0, True, False)] * 2
    assert {step.invalid_reason for step in trajectory.steps} == {"invalid"}
    with pytest.raises(ValueError, match="Pass MetaEpisode\\(env, rules='...'\\)"):
        MetaEpisode(Endless())
    with pytest.raises(BadResult, match="the observation must be a str, got ndarray"):
        MetaEpisode(gym.make("CartPole-v1"), rules="Balance.").reset(seed=0)


def test_a_step_records_the_knowledge_its_source_and_the_action() -> None:
    for trajectory in collect([make("kuhn/nash")], Asked(), specs(6)):
        for step in trajectory.steps:
            if step.phase == "reflect":
                assert (step.information_state, step.action) == ("", None)
            else:
                assert step.information_state[0] in "JQK"
                assert step.seat == (trajectory.episodes[0].seats[0] + step.episode) % 2
                assert (step.action is None) == (step.invalid_reason is not None)
                assert step.action is None or f"<action>{step.action}</action>" == step.text


def test_a_base_id_is_played_as_one_episode() -> None:
    backend = Asked(lambda prompt: Completion(prompt.legal_actions[0]))
    env = gym.make("mage/KuhnPoker-v0", opponent="kuhn/maniac")
    [trajectory] = collect([env], backend, specs(1, seat=0))
    assert (trajectory.opponent, len(trajectory.episodes), [step.reward for step in trajectory.steps]) == (
        "kuhn/maniac",
        1,
        [0.0, -1.0],
    )
