"""The reward that an adapter reports: a wrapper around a meta-episode, or around one episode of a base id."""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium as gym

REWARDS = ("return", "final", "differential")
"""`return`: R_k at the end of each episode k. `final`: R of the last episode. `differential`: R_k less R_{k-1}."""


class AdapterReward(gym.Wrapper[str, Any, str, Any]):
    """Wrapper that pays one of `REWARDS` at the end of each episode. Penalties are not part of it."""

    def __init__(self, env: gym.Env[str, Any], kind: str = "return") -> None:
        super().__init__(env)
        if kind not in REWARDS:
            raise ValueError(f"reward={kind!r} is unknown; choose one of: {', '.join(REWARDS)}.")
        self._kind = kind
        self._earlier = 0.0
        """Reward of the episode before this one."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self._earlier = 0.0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self._kind == "final" and not (terminated or truncated):
            reward = 0.0
        elif self._kind == "differential" and info.get("episode_end", terminated):
            reward, self._earlier = float(reward) - self._earlier, float(reward)
        return observation, reward, terminated, truncated, info
