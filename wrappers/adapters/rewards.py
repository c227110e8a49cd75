"""The reward that an adapter reports: a wrapper around a meta-episode, or around one episode of a base id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, SupportsFloat

import gymnasium as gym

import mage_envs

REWARDS = ("return", "final", "differential")
"""`return`: R_k at the end of each episode k. `final`: R of the last episode. `differential`: R_k less R_{k-1}."""


class AdapterReward(gym.Wrapper[str, str, str, str]):
    """Wrapper that pays one of `REWARDS` at the end of each episode. Penalties are not part of it."""

    def __init__(self, env: gym.Env[str, str], kind: str = "return") -> None:
        super().__init__(env)
        if kind not in REWARDS:
            raise ValueError(f"reward={kind!r} is unknown; choose one of: {', '.join(REWARDS)}.")
        self._kind = kind
        self._earlier = 0.0
        """Reward of the episode before this one."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self._earlier = 0.0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self._kind == "final" and not (terminated or truncated):
            reward = 0.0
        elif self._kind == "differential" and info.get("episode_end", terminated):
            reward, self._earlier = float(reward) - self._earlier, float(reward)
        return observation, reward, terminated, truncated, info


def make(env_id: str, reward: str = "return", env_kwargs: Mapping[str, Any] | None = None) -> gym.Env[str, str]:
    """Return an environment whose step pays `reward`, one of `REWARDS`.

    Args:
        env_id: Registered id.
        reward: One of `REWARDS`.
        env_kwargs: Options of the id.
    """
    return AdapterReward(gym.make(env_id, disable_env_checker=True, **(env_kwargs or {})), reward)


def make_for(
    panel: mage_envs.Panel, reward: str = "return", env_kwargs: Mapping[str, Any] | None = None
) -> gym.Env[str, str]:
    """Return an environment for the tasks of a panel. The panel's own options have priority over `env_kwargs`."""
    return make(panel.env_id, reward, {**(env_kwargs or {}), **panel.env_kwargs})
