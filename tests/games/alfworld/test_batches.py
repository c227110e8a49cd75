"""Many games of ALFWorld through the suite's vector interface, in this process and in workers."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import mage_envs  # noqa: F401  (registers the ids)


def play(envs, steps, count):
    """Texts and rewards of a scripted run: row i takes command number (step + i)."""
    transitions = [envs.reset(seed=3)]
    for step in range(steps):
        legal = transitions[-1][-1]["legal_actions"]
        actions = [
            commands[(step + row) % len(commands)] if commands is not None and len(commands) else "look"
            for row, commands in enumerate(legal)
        ]
        transitions.append(envs.step(actions))
    texts = [tuple(transition[0]) for transition in transitions]
    rewards = [transition[1].tolist() for transition in transitions[1:]]
    assert all(len(row) == count for row in texts)
    return texts, rewards


@pytest.mark.more
def test_more_than_a_hundred_in_one_process():
    envs = gym.make_vec("mage/ALFWorld-v0", num_envs=120, size="tiny", split="eval_in_distribution")
    texts, _ = play(envs, 3, 120)
    assert len(set(texts[0])) > 40, "different games"
    envs.close()
    envs = gym.make_vec("mage/ALFWorld-v0", num_envs=120, size="tiny", split="eval_in_distribution")
    assert play(envs, 3, 120)[0] == texts, "the handles of closed ones are used again, and nothing of their games"
    envs.close()


@pytest.mark.parametrize("kind", ["v0", "Meta-v0"])
def test_a_pool_of_spawned_workers_plays_the_same(kind):
    options = {"size": "tiny", "split": "eval_out_of_distribution", "max_turns": 6}
    in_process = gym.make_vec(f"mage/ALFWorld-{kind}", num_envs=6, **options)
    in_workers = gym.make_vec(f"mage/ALFWorld-{kind}", num_envs=6, workers=2, deadline=120.0, **options)
    try:
        assert play(in_process, 12, 6) == play(in_workers, 12, 6)
    finally:
        in_process.close()
        in_workers.close()


def test_rows_equal_single_environments():
    envs = gym.make_vec("mage/ALFWorld-v0", num_envs=3, size="tiny")
    texts, infos = envs.reset(seed=11)
    for row in range(3):
        env = gym.make("mage/ALFWorld-v0", size="tiny")
        text, info = env.reset(seed=11 + row)
        assert text == texts[row]
        assert info["private"]["task"] == infos["private"]["task"][row]
        env.close()
    assert isinstance(infos["legal_actions"], np.ndarray)
    envs.close()
