"""A reward that is not finite is an error at the wrapper: one bad number would become every mean."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from mage_envs import MetaEpisode
from mage_envs.spaces import FreeText
from mage_envs.step_checks import BadResult, check_step


class Paying(gym.Env):
    """An environment of another project that pays `reward` for any answer."""

    observation_space = action_space = FreeText()

    def __init__(self, reward):
        self.reward = reward

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return "Answer.", {}

    def step(self, action):
        return "Thanks.", self.reward, True, False, {}


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), -np.inf, np.float32("nan")])
def test_a_reward_that_is_not_finite_is_refused(reward):
    env = MetaEpisode(Paying(reward), rules="Answer.", num_episodes=2)
    env.reset(seed=0)
    with pytest.raises(BadResult, match="the reward must be finite, got "):
        env.step("<action>yes</action>")


def test_a_finite_reward_is_kept_and_the_trainer_may_see_others():
    env = MetaEpisode(Paying(np.float64(0.5)), rules="Answer.", num_episodes=2)
    env.reset(seed=0)
    assert env.step("<action>yes</action>")[1] == 0.5
    assert np.isnan(check_step(("", float("nan"), True, False, {}))[1])
