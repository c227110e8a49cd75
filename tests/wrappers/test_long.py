"""Long checks, run by `make test-long`."""

import os

import gymnasium as gym
import pytest

from trainer.rollout import meta_episode


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"opponent": "kuhn/nash"}, {"opponent": "uniform", "context": "conversation"}])
def test_a_hundred_thousand_meta_episodes_leave_memory_flat(options):
    env = meta_episode(gym.make("mage/KuhnPoker-Meta-v0", memory="history", **options))
    sizes = []
    for seed in range(100_000):
        env.reset(seed=seed)
        while not env.over:
            env.answer(f"<action>{env.legal_actions()[-1]}</action>")
        if seed in (20_000, 99_999):
            sizes.append(resident_bytes())
    assert sizes[1] - sizes[0] < 4_000_000
