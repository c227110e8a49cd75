"""A text environment of another author, registered in Gymnasium without a word about this suite."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from mage_envs.wrappers import MetaEpisode

NUMBERS = tuple("01234")


class Guess(gym.Env[str, str]):
    """Guess the number from 0 to 4 that the seed drew, in three tries; no word of it in `info`."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.number, self.left = int(self.np_random.integers(5)), 3
        return "Guess a number from 0 to 4.", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        right = action == str(self.number)
        text = "Right." if right else "Too low." if action < str(self.number) else "Too high."
        return text, float(right), right, not right and self.left == 0, {}


class ToldGuess(Guess):
    """The same with a complete `info`."""

    def reset(self, **options: Any) -> tuple[str, dict[str, Any]]:
        return super().reset(**options)[0], {"legal_actions": NUMBERS}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, _ = super().step(action)
        bad = None if action in NUMBERS else "invalid"
        info = {"legal_actions": NUMBERS, "success": terminated, "invalid_reason": bad}
        return observation, reward, terminated, truncated, info


class Bad(ToldGuess):
    """Returns `result` in place of what `method` returns, in the meta-episodes with the seed `seed`."""

    def __init__(self, method: str, result: Any, seed: int = 1) -> None:
        self.method, self.result, self.seed = method, result, seed

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self.is_bad = seed == self.seed
        result = super().reset(seed=seed)
        return self.result if self.is_bad and self.method == "reset" else result

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        result = super().step(action)
        return self.result if self.is_bad and self.method == "step" else result


def make_guess_meta(**options: Any) -> MetaEpisode:
    """`foreign/Guess-Meta-v0`: the entry point."""
    return MetaEpisode(ToldGuess(), rules="Guess the number.", deal="replay", **options)


def register() -> None:
    """Registers the id, once."""
    if "foreign/Guess-Meta-v0" not in gym.registry:
        gym.register("foreign/Guess-Meta-v0", entry_point="tests.trainer.foreign:make_guess_meta")
