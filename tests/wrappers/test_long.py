"""Long checks, run by `make test-long`."""

import os

import gymnasium as gym
import pytest

import mage_envs  # noqa: F401  (registers the ids)


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"opponent": "kuhn/nash"}, {"opponent": "uniform", "context": "conversation"}])
def test_a_hundred_thousand_meta_episodes_leave_memory_flat(options):
    env = gym.make("mage/KuhnPoker-Meta-v0", memory="history", **options)
    sizes = []
    for seed in range(100_000):
        _, info = env.reset(seed=seed)
        terminated = False
        while not terminated:
            *_, terminated, _, info = env.step(f"<action>{info['legal_actions'][-1]}</action>")
        if seed in (20_000, 99_999):
            sizes.append(resident_bytes())
    assert sizes[1] - sizes[0] < 4_000_000
