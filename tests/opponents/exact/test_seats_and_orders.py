"""Seats of exact values, and the limit on orders of a series."""

from __future__ import annotations

from itertools import combinations

import pytest

from mage_envs.games.encounters import ENCOUNTERS
from mage_envs.opponents import as_pool
from mage_envs.opponents.exact import series
from mage_envs.opponents.exact.bayes import bayes_value, first_seats
from mage_envs.opponents.exact.learner_hands import TooManyStates
from mage_envs.opponents.exact.series import without_repetition
from mage_envs.registry import make_game
from mage_envs.tree import tree_of


def test_first_and_second_are_the_seats_of_kuhn_poker() -> None:
    """The first player of Kuhn Poker loses 1/18 of a chip against an equilibrium, and the second one wins it."""
    game = make_game("KuhnPoker")
    values = {
        seat: bayes_value(game, "kuhn/nash", episodes=1, hands=1, seat=seat).per_episode[0]
        for seat in ("first", "second", "alternate")
    }
    assert values == pytest.approx({"first": -1 / 18, "second": 1 / 18, "alternate": 0.0}, abs=1e-12)
    assert [list(first_seats(game, seat)) for seat in ("first", "second", "alternate")] == [[0], [1], [0, 1]]


@pytest.mark.parametrize(("limit", "fits"), [(240, True), (239, False)])
def test_orders_times_opponents_are_limited(limit: int, fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """5 tasks have 5 * 4 * 3 orders of 3 episodes, for each of 4 opponents."""
    game, pool = make_game("Encounters"), as_pool("pool:encounters/all")
    assert len(pool) == 4
    monkeypatch.setattr(series, "ORDERS", limit)
    if fits:
        _, opponents = without_repetition(game, pool, episodes=3, hands=1)
        assert len(opponents) == 240
        assert sum(opponents.weights) == pytest.approx(1.0)
    else:
        with pytest.raises(TooManyStates, match="too many orders"):
            without_repetition(game, pool, episodes=3, hands=1)


def test_a_series_has_one_hand_per_episode() -> None:
    with pytest.raises(TooManyStates, match="episodes of 2 hands without repetition"):
        without_repetition(make_game("Encounters"), as_pool("pool:encounters/all"), episodes=1, hands=2)


@pytest.mark.parametrize("games", list(combinations(ENCOUNTERS, 2)), ids="-".join)
def test_every_series_has_exact_values(games: tuple[str, str]) -> None:
    """Accept a draw that the learner sees and the opponent does not, even if the opponent seems to forget."""
    game = make_game("Encounters", games=list(games))
    series_game, _ = without_repetition(game, as_pool("pool:encounters/all"), episodes=2, hands=1)
    root = tree_of(series_game).roots[0][1]
    assert len(root.children) == sum(map(len, game.tasks))
