"""The keyed stream: its known values, one by one and in a batch; independent of order; uniform."""

from __future__ import annotations

import pickle
from copy import deepcopy

import numpy as np
import pytest

from mage_envs.random.streams import (
    GAME,
    POOL,
    SEATS,
    SEED_BITS,
    Stream,
    Streams,
    fold,
    fold_all,
    mix,
    seed_of,
    uniforms,
)


def test_a_stream_is_splitmix64() -> None:
    """The first numbers of seed 1234567 as published with the generator (Vigna's reference code)."""
    stream = Stream(1234567)
    expected = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert [stream.random() for _ in expected] == [(number >> 11) * 2.0**-53 for number in expected]


def test_single_draws_and_batches_agree_to_the_bit() -> None:
    keys = [0, 1, 2**63, 2**64 - 1, 987654321987654321]
    for index in (0, 1, 7, 1000):
        single = []
        for key in keys:
            stream = Stream(key)
            single.append([stream.random() for _ in range(index + 1)][-1])
        assert uniforms(np.array(keys, np.uint64), index).tolist() == single
    parts = [[3, 1, 4], [0, 0, 0], [2**64 - 1, 5, 2**53]]
    assert fold_all(np.array(parts, np.uint64)).tolist() == [fold(*row) for row in parts]


def test_seeds_of_any_size_count_whole() -> None:
    assert fold(5) != fold(5 + 2**64) != fold(5 + 2**128)
    assert fold(1, 2) != fold(2, 1) != fold(3)
    assert all(0 <= seed_of(7, part) < 2**SEED_BITS for part in range(1000))
    assert len({seed_of(7, part) for part in range(1000)}) == 1000
    assert mix(0) == 0  # the finaliser alone keeps 0; the streams add their step first


def test_streams_are_functions_of_their_key() -> None:
    first_streams, second_streams = Streams(11), Streams(11)
    keys = [
        (role, episode, hand) for role in (GAME, POOL, SEATS, SEATS + 1) for episode in range(5) for hand in range(5)
    ]
    numbers_by_key = {key: [first_streams.at(*key).random() for _ in range(2)] for key in keys}
    assert {key: [second_streams.at(*key).random() for _ in range(2)] for key in reversed(keys)} == {
        key: numbers_by_key[key] for key in keys
    }
    assert len({values[0] for values in numbers_by_key.values()}) == len(keys)
    number_before = first_streams.at(GAME).random()
    first_streams.advance()
    second_streams.advance()
    assert first_streams.at(GAME).random() == second_streams.at(GAME).random() != number_before
    generator, other_generator = first_streams.at(GAME).generator(), second_streams.at(GAME).generator()
    assert generator.integers(1000, size=20).tolist() == other_generator.integers(1000, size=20).tolist()


def test_numbers_by_their_index_are_those_of_the_streams_also_after_advances_and_in_copies() -> None:
    streams = Streams(3, 1)
    places = [(GAME, 0, 0), (POOL, 0, 1), (SEATS, 2, 1)]
    all_numbers = set()
    for advances in range(300):
        if advances == 100:
            streams = pickle.loads(pickle.dumps(streams))
        for key in places:
            stream = streams.at(*key)
            numbers = [streams.number(*key, index) for index in range(3)]
            assert numbers == [stream.random() for _ in range(3)]
            all_numbers.update(numbers)
        streams.advance()
    assert len(all_numbers) == 300 * 3 * 3


def test_a_generator_is_a_keyed_philox_and_spawns_from_its_key_alone() -> None:
    for key in (0, 7, 2**63, 2**64 - 1):
        ours, numpys = Stream(key).generator(), np.random.Generator(np.random.Philox(key=mix(key)))
        assert ours.random(9).tolist() == numpys.random(9).tolist()
        assert ours.integers(2**60) == numpys.integers(2**60)
        copies = deepcopy(ours), pickle.loads(pickle.dumps(ours))
        assert copies[0].random() == copies[1].random() == ours.random()
    children = [[child.random() for count in (2, 1) for child in Stream(5).generator().spawn(count)] for _ in "12"]
    assert children[0] == children[1]
    rng = Stream(5).generator()
    assert len({child.random() for count in (2, 2) for child in rng.spawn(count)} | {rng.random()}) == 5


@pytest.mark.parametrize("role", [GAME, POOL, SEATS])
def test_first_draws_are_uniform_and_those_of_roles_independent(role: int) -> None:
    draws = np.array(
        [[Streams(seed).at(each_role).random() for each_role in (role, role + 1)] for seed in range(20_000)]
    )
    counts, *_ = np.histogram2d(draws[:, 0], draws[:, 1], bins=10, range=[[0, 1], [0, 1]])
    chi = float(((counts - 200) ** 2 / 200).sum())
    assert chi < 99 + 5 * (2 * 99) ** 0.5
