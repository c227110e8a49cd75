"""Plays a vector environment by a script and says where two of them differ."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

import mage_envs  # noqa: F401  (registers the ids)

MODES = ("NextStep", "SameStep", "Disabled")
ODD = ("nonsense", " FOLD ", "PASS", "bet", "2 2", "(1,1)", "", "up,up", " Left ", "down, down, up", "(9, 9)")


def ours(env_id: str, num_envs: int, mode: str, **options: Any) -> Any:
    return gym.make_vec(env_id, num_envs=num_envs, autoreset_mode=mode, **options)


def gymnasiums(env_id: str, num_envs: int, mode: str, **options: Any) -> Any:
    return gym.make_vec(
        env_id, num_envs=num_envs, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}, **options
    )


def reply(info: dict[str, Any], row: int, rng: np.random.Generator, odd: float) -> str:
    """A legal answer, or an odd one with probability `odd`."""
    legal = info["legal_actions"][row] if "legal_actions" in info else None
    text = legal[int(rng.integers(len(legal)))] if legal else "up"
    if rng.random() < odd:
        text = ODD[int(rng.integers(len(ODD)))]
    if "phase" not in info:
        return text
    return f"<action>{text}</action>" if info["phase"][row] == "play" else "<remark>watch the bets</remark>"


def play(envs: Any, steps: int, seed: int, odd: float, seeds: Any = 0, options: Any = None) -> list[Any]:
    """Everything that `envs` shows a scripted learner. Mode DISABLED resets by mask what ended."""
    rng = np.random.default_rng(seed)
    observation, info = envs.reset(seed=seeds, options=None if options is None else dict(options))
    received: list[Any] = [(observation, info)]
    disabled = envs.metadata["autoreset_mode"].value == "Disabled"
    for step in range(steps):
        observation, reward, terminated, truncated, info = envs.step(
            [reply(info, row, rng, odd) for row in range(envs.num_envs)]
        )
        received.append((observation, reward, terminated, truncated, info))
        over = terminated | truncated
        if disabled and over.any():
            reset_seeds: list[int | None] = [100 * step + row if row % 3 == 0 else None for row in range(envs.num_envs)]
            received.append(envs.reset(seed=reset_seeds, options={**(options or {}), "reset_mask": over}))
    envs.close()
    return received


def assert_same(actual: Any, expected: Any, where: str = "") -> None:
    """Equal in value, type, dtype and keys."""
    assert type(actual) is type(expected), f"{where}: {actual!r} {expected!r}"
    if isinstance(actual, dict):
        assert sorted(actual) == sorted(expected), where
        for key in actual:
            assert_same(actual[key], expected[key], f"{where}[{key!r}]")
    elif isinstance(actual, np.ndarray):
        assert actual.dtype == expected.dtype, f"{where}: {actual.dtype} {expected.dtype}"
        assert actual.shape == expected.shape, where
        if actual.dtype == object:
            assert_same(actual.tolist(), expected.tolist(), where)
        else:
            np.testing.assert_array_equal(actual, expected, err_msg=where)
    elif isinstance(actual, list | tuple):
        assert len(actual) == len(expected), where
        for index, (actual_item, expected_item) in enumerate(zip(actual, expected)):
            assert_same(actual_item, expected_item, f"{where}[{index}]")
    else:
        assert actual == expected, f"{where}: {actual!r} {expected!r}"
