"""Random hands of worded games, for oracles that compute the returns from the rules of the text alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from mage_envs.games.openspiel.openspiel_game import OpenSpiel, SpielState
from mage_envs.games.openspiel.position import positions

Returns = tuple[float, ...]


class Hand(NamedTuple):
    """One hand of random play."""

    state: SpielState
    """The end of the hand."""
    moves: list[tuple[int, str]]
    """(player, action) of every move."""
    views: list[str]
    """The last observation of each player."""
    first_views: list[str]
    """The first observation of each player."""


def play(text: str, seed: int, max_moves: int = 3000) -> Hand:
    game, rng = OpenSpiel(text), np.random.default_rng(seed)
    state, moves = game.initial_state(rng), []
    seats = range(game.spec.players)
    first_views = [state.observation(seat) for seat in seats]
    while state.player is not None:
        action = state.legal_actions[int(rng.integers(len(state.legal_actions)))]
        moves.append((state.player, action))
        state = state.after(action)
        assert len(moves) < max_moves
    return Hand(state, moves, [state.observation(seat) for seat in seats], first_views)


def numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"-?\d+", text)]


def win_returns(winner: int) -> Returns:
    return (1.0, -1.0) if winner == 0 else (-1.0, 1.0)


def compare_numbers(first_number: float, second_number: float) -> Returns:
    """The returns if the larger number wins."""
    return (0.0, 0.0) if first_number == second_number else win_returns(int(second_number > first_number))


def check_returns(game: str, oracle: Callable[[Hand], Returns]) -> None:
    """Compare the returns of random hands with those of an oracle, which reads the last texts and the actions."""
    assert positions(game).texts.worded
    distinct_returns = set()
    for seed in range(25):
        hand = play(game, seed)
        assert hand.state.returns == pytest.approx(oracle(hand)), hand.views
        distinct_returns.add(hand.state.returns)
    # An oracle that always sees the same result shows nothing.
    assert len(distinct_returns) > 1
