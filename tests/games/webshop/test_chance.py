"""Keyed draws, and the original's shuffle."""

import random
import subprocess
import sys

import pytest

from mage_envs.games.webshop.chance import UPSTREAM_SEED, shuffle_range, uniform


@pytest.mark.parametrize("count", [0, 1, 2, 3, 10, 6910, 70_000])
@pytest.mark.parametrize("seed", [UPSTREAM_SEED, 0, 2**32 - 1])
def test_the_shuffle_is_cpythons(count, seed):
    expected = list(range(count))
    random.seed(seed)
    random.shuffle(expected)
    assert list(shuffle_range(count, seed)) == expected


def test_draws_depend_on_the_key_alone():
    assert uniform(0, "B000000001", "price") == uniform(0, "B000000001", "price")
    keys = [(0, "a", "b"), (1, "a", "b"), (0, "ab", ""), (0, "b", "a"), (0, "a", "b", ""), (0, "\ud83d")]
    assert len({uniform(*key) for key in keys}) == len(keys)
    script = "from mage_envs.games.webshop.chance import uniform; print(uniform(3, 'x'))"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert float(process.stdout) == uniform(3, "x")


def test_draws_are_uniform():
    draws = sorted(uniform("key", number) for number in range(10_000))
    assert max(abs(draw - rank / 10_000) for rank, draw in enumerate(draws)) < 0.02
    assert 0 <= draws[0]
    assert draws[-1] < 1
