"""Draws are those of NumPy's own seeding, however large the seed."""

import numpy as np
import pytest

from mage_envs.games.webshop.catalogue_maker.draws import Draws


@pytest.mark.parametrize(
    "key", [(0,), (0, 1), (7, 3, True, 12, 5, 31), (2**32 - 1, 2), (2**32, 2), (2**70 + 5, 1, False, 9)]
)
def test_numbers_are_those_of_the_seed_sequence(key):
    expected = np.random.Generator(np.random.PCG64(np.random.SeedSequence(key[0], spawn_key=key[1:]))).random(300)
    draws = Draws(*key)
    assert [draws.uniform() for _ in range(300)] == expected.tolist()
