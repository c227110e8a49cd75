"""Streams made together are, bit for bit, the streams that NumPy makes one by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mage_envs.randomness import GAME, OPPONENT, SEEDS_KEPT, KeyedStreams, prepare
from mage_envs.seeding import first_values


def numpys(seed, key, count):
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key))).random(count)


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2**32, 2**62 + 5, 2**64 - 1, 2**64, 2**96, 2**128 - 1])
def test_values_at_the_borders_of_words_are_numpys(seed):
    keys = [(0, 0, 0), (1, 2, 3), (2**32 - 1, 2**31, 1), (0, 2**16, 2**32 - 1)]
    made = first_values([seed, 7, seed], keys, 9)
    assert np.array_equal(made[0], [numpys(seed, key, 9) for key in keys])
    assert np.array_equal(made[1], [numpys(7, key, 9) for key in keys])
    assert np.array_equal(made[2], made[0])


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 2**128 - 1), min_size=1, max_size=4),
    st.lists(st.tuples(*[st.integers(0, 2**32 - 1)] * 3), min_size=1, max_size=4),
    st.integers(1, 20),
)
def test_any_values_are_numpys(seeds, keys, count):
    expected = [[numpys(seed, key, count) for key in keys] for seed in seeds]
    assert np.array_equal(first_values(seeds, keys, count), expected)


def test_keys_of_other_lengths_are_numpys():
    for key in [(5,), (5, 6, 7, 8, 9)]:
        assert np.array_equal(first_values([123], [key], 3)[0, 0], numpys(123, key, 3))


def drawn(seed):
    streams = KeyedStreams(seed)
    values = []
    for role in (GAME, OPPONENT):
        random = streams.uniforms(role, 2, 1)
        values += [streams.first(role, 2, 1), *(random() for _ in range(12))]
    return values


def test_a_prepared_stream_is_the_stream_itself_beyond_what_was_prepared_too():
    alone = {seed: drawn(seed) for seed in (3, 2**70, 2**130)}
    for seed, values in alone.items():
        assert values == [
            value
            for role in (GAME, OPPONENT)
            for value in (numpys(seed, (role, 2, 1), 1)[0], *numpys(seed, (role, 2, 1), 12))
        ]
    others = range(10**6, 10**6 + SEEDS_KEPT)
    prepare(list(others), [(GAME, 2, 1)])  # pushes out what is held
    prepare(list(alone), [(GAME, 2, 1), (OPPONENT, 2, 1)])
    assert {seed: drawn(seed) for seed in alone} == alone
    assert KeyedStreams(3).stream(GAME, 2, 1).random() == alone[3][0]


def test_preparing_nothing_does_nothing():
    prepare([], [(GAME, 0, 0)])
    prepare([1], [])
