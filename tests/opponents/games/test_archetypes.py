"""Archetypes of Leduc Poker, Liar's Dice and Negotiation: their play, and the value of knowing them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from mage_envs import make_game, play_match
from mage_envs.opponents import as_pool, make_opponent
from mage_envs.opponents.exact import best_nonadaptive, best_response, policy_value
from mage_envs.opponents.games.leduc import strength
from mage_envs.opponents.games.liars_dice import likelihood
from tests.opponents.dealing import decisions

LEDUC, DICE = make_game("LeducPoker"), make_game("LiarsDice", sides=3)


def test_a_caller_never_raises_and_a_maniac_never_folds() -> None:
    for turn in decisions(LEDUC):
        caller, maniac, tight = (
            make_opponent(f"leduc/{name}", LEDUC).distribution(turn) for name in ("caller", "maniac", "tight")
        )
        assert caller == {"call" if "fold" in turn.legal_actions else "check": 1.0}
        assert maniac == {"raise" if "raise" in turn.legal_actions else "call": 1.0}
        weak = strength(turn.information_state) < 2
        assert tight.get("fold", 0.0) == float(weak and "fold" in turn.legal_actions)


@pytest.mark.parametrize(
    ("private", "public", "expected"), [(0, "", 0), (1, "", 1), (2, "", 2), (0, 0, 2), (2, 1, 1), (1, 2, 0), (1, 0, 0)]
)
def test_strength(private: int, public: object, expected: int) -> None:
    public_text = "" if public == "" else f"[Public: {public}]"
    assert strength(f"[Observer: 0][Private: {private}][Round 1]{public_text}[Round1: ]") == expected


def test_a_caller_calls_a_maniac_to_the_end() -> None:
    """If both players call to the end, 13 chips (1 + 2 raises of 2 + 2 of 4) go by the rank alone, from both seats."""
    assert policy_value(LEDUC, ["leduc/caller", "leduc/maniac"]) == pytest.approx((0, 0))
    assert policy_value(LEDUC, ["leduc/caller", "leduc/caller"]) == pytest.approx((0, 0))


@pytest.mark.parametrize(
    ("own_dice", "bid", "expected"),
    [((3,), (1, 2), 1), ((1,), (1, 2), 2 / 3), ((1,), (1, 3), 1 / 3), ((1,), (2, 1), 2 / 3), ((1,), (2, 2), 0)],
)
def test_likelihood_with_one_die_of_three_faces(
    own_dice: tuple[int, ...], bid: tuple[int, int], expected: float
) -> None:
    assert likelihood(own_dice, bid, 3) == pytest.approx(expected)


def test_doubters() -> None:
    for turn in decisions(DICE, 5):
        rows = {n: make_opponent(f"liars/{n}", DICE).distribution(turn) for n in ("caller", "maniac", "soft-tight")}
        own_die, *bids = turn.information_state.split()
        if bids:
            count, face = map(int, bids[-1].split("-"))
            sure = likelihood((int(own_die),), (count, face), 3) == 1
            assert (rows["caller"] == {"liar": 1.0}) == (not sure or turn.legal_actions == ("liar",))
        if turn.legal_actions != ("liar",):
            assert "liar" not in rows["maniac"]
        assert set(rows["soft-tight"]) == set(turn.legal_actions)
        assert sum(rows["soft-tight"].values()) == pytest.approx(1)


@pytest.mark.parametrize(("game", "pool"), [(LEDUC, "leduc"), (DICE, "liars")], ids=["leduc", "liars"])
def test_archetypes_differ_and_knowing_them_pays(game, pool: str) -> None:
    turns = decisions(game, 3)
    for first_name, second_name in combinations(
        [*as_pool(f"pool:{pool}/four").entries, *as_pool(f"pool:{pool}/soft").entries], 2
    ):
        policies = make_opponent(first_name, game), make_opponent(second_name, game)
        assert any(policies[0].distribution(turn) != policies[1].distribution(turn) for turn in turns), (
            first_name,
            second_name,
        )
    for kind in ("four", "soft"):
        mixture = as_pool(f"pool:{pool}/{kind}")
        known_value = sum(best_response(game, entry, 0).value for entry in mixture.entries) / len(mixture)
        assert known_value - best_nonadaptive(game, mixture, 0).value > 0.05


def test_negotiators_by_what_they_get_of_each_other() -> None:
    game = make_game("Negotiation")

    def mean(first_name: str, second_name: str) -> float:
        players = [make_opponent(f"negotiation/{name}", game) for name in (first_name, second_name)]
        return float(play_match(game, players, np.random.default_rng(0), hands=60).mean[0])

    assert mean("boulware", "conceder") > mean("fair", "conceder") > mean("fair", "boulware") > mean("fair", "greedy")
