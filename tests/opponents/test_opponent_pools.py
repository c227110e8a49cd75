"""Pools: weights, draws, named mixes, errors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from mage_envs import make_game, settings_of
from mage_envs.game_record import RECORDS
from mage_envs.opponents import (
    OpponentPool,
    UnknownOpponent,
    as_pool,
    list_pools,
    make_opponent,
    opponent_info,
    pools,
    register_pool,
    registry,
)
from mage_envs.opponents.games.kuhn import nash


@pytest.fixture(autouse=True)
def restore_pools() -> Iterator[None]:
    """Puts the named pools back after each test."""
    # A module that a test were the first to import would register its pools for that test alone.
    registry.load_all_opponents()
    pools_before = dict(pools._POOLS)
    yield
    pools._POOLS.clear()
    pools._POOLS.update(pools_before)


def weights(name: str) -> dict[object, float]:
    pool = as_pool(f"pool:{name}")
    return dict(zip(pool.entries, pool.weights, strict=True))


def test_weights_are_normalised() -> None:
    pool = OpponentPool({"uniform": 1, "cfr": 3})
    assert pool.entries == ("uniform", "cfr")
    assert pool.weights == (0.25, 0.75)
    assert len(pool) == 2


def test_the_named_pools() -> None:
    patterns = [f"tictactoe/pattern-{i}" for i in range(1, 7)]
    assert weights("tictactoe/balanced") == {"mcts:100": 8 / 16, **dict.fromkeys(patterns, 1 / 16), "uniform": 2 / 16}
    assert weights("tictactoe/skewed") == {"mcts:100": 4 / 16, **dict.fromkeys(patterns, 1.5 / 16), "uniform": 3 / 16}
    assert weights("tictactoe/patterns") == pytest.approx(dict.fromkeys(patterns, 1 / 6))
    assert weights("kuhn/paper") == pytest.approx(
        {"kuhn/conservative": 0.3, "kuhn/aggressive": 0.3, "kuhn/intermediate": 0.4}
    )
    assert weights("kuhn/demo") == {
        f"kuhn/soft-{kind}": 0.25 for kind in ("conservative", "aggressive", "station", "scared")
    }


def test_named_pools_hold_opponents_of_their_game() -> None:
    assert {"kuhn/paper", "tictactoe/balanced"} <= set(list_pools())
    for name in list_pools():
        entries = [str(entry) for entry in as_pool(f"pool:{name}").entries]
        (game,) = {
            *(record.name for record in RECORDS.values() if name.split("/")[0] in record.opponents),
        } & {game for entry in entries for game in opponent_info(entry.split(":")[0]).games or ()}
        for entry in entries:
            make_opponent(entry, make_game(game))


def test_default_opponents_of_the_games_resolve() -> None:
    assert as_pool(settings_of("TicTacToe").opponent) == as_pool("pool:tictactoe/balanced")
    assert as_pool(settings_of("KuhnPoker").opponent) == as_pool("pool:kuhn/paper")


def test_draws_follow_the_weights_with_one_number_each() -> None:
    pool = as_pool("pool:kuhn/paper")
    rng, twin = np.random.default_rng(7), np.random.default_rng(7)
    counts = Counter(pool.draw(rng) for _ in range(20_000))
    for entry, weight in zip(pool.entries, pool.weights, strict=True):
        assert abs(counts[entry] / 20_000 - weight) < 0.015
    twin.random(20_000)
    assert rng.random() == twin.random()


def test_specifications() -> None:
    pool, policy = OpponentPool({"uniform": 1}), nash()
    assert as_pool(pool) is pool
    assert as_pool("uniform") == pool
    assert as_pool({"uniform": 4}) == pool
    assert as_pool(policy).draw(np.random.default_rng(0)) is policy
    assert OpponentPool([(policy, 1), ("uniform", 1)]).entries == (policy, "uniform")


def test_pools_are_frozen() -> None:
    with pytest.raises(AttributeError):
        OpponentPool({"uniform": 1}).weights = (2.0,)  # type: ignore[misc]


def test_registering() -> None:
    register_pool("mine", {"uniform": 1, "cfr": 1})
    register_pool("mine", OpponentPool({"uniform": 2, "cfr": 2}))
    assert "mine" in list_pools()
    with pytest.raises(ValueError, match=r"^Pool 'mine' is already registered with other opponents; choose another"):
        register_pool("mine", {"uniform": 1})


@pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf"), True, "1"])
def test_bad_weights(weight: Any) -> None:
    with pytest.raises(
        ValueError, match=f"^The weight of 'uniform' must be a positive number, got {re.escape(repr(weight))}"
    ):
        OpponentPool({"uniform": weight})


def test_other_errors() -> None:
    with pytest.raises(ValueError, match=r"^An opponent pool requires at least one opponent with its weight\.$"):
        OpponentPool({})
    with pytest.raises(ValueError, match=r"^A pool holds opponents, not pools"):
        OpponentPool({"pool:kuhn/demo": 1})
    with pytest.raises(
        ValueError, match=r"^Opponent 'uniform' is in the pool twice. List it once, with the sum of its weights\.$"
    ):
        OpponentPool([("uniform", 1), ("uniform", 1)])
    with pytest.raises(TypeError, match=r"^A pool holds names and policies, got 3\.$"):
        as_pool(3)  # type: ignore[arg-type]
    with pytest.raises(UnknownOpponent, match=r"^Unknown pool 'kuhn/deno'\. Did you mean 'kuhn/demo'\? list_pools\(\)"):
        as_pool("pool:kuhn/deno")
