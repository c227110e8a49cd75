"""`play_match`: games of policies against each other, without a learner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mage_envs.core import Game, Policy
from mage_envs.hand import Hand, Seat, Table
from mage_envs.random.streams import SEED_BITS, Streams


class MatchResult(NamedTuple):
    """Result of a match."""

    returns: np.ndarray
    """Return of every hand and player in the game's unit, shape (hands, players)."""

    @property
    def mean(self) -> np.ndarray:
        """Return the mean return per player, shape (players,)."""
        return np.asarray(self.returns.mean(axis=0))

    @property
    def standard_error(self) -> np.ndarray:
        """Return the standard error of the mean, shape (players,); NaN for a single hand."""
        hands = len(self.returns)
        if hands < 2:
            return np.full(self.returns.shape[1], np.nan)
        return np.asarray(self.returns.std(axis=0, ddof=1) / np.sqrt(hands))


def play_match(game: Game, policies: Sequence[Policy], rng: np.random.Generator, hands: int = 1) -> MatchResult:
    """Play hands between policies.

    Args:
        policies: One policy per seat, in the order of the seats.
        rng: Generator that draws the seed of the match.
        hands: Number of hands. Seats do not change between them.

    Raises:
        OpponentFailure: If a policy raises an exception or returns an illegal action.
        ValueError: If the number of policies is not the number of seats.
    """
    if len(policies) != game.spec.players:
        raise ValueError(f"{game.spec.name} has {game.spec.players} seats, got {len(policies)} policies.")
    streams = Streams(int(rng.integers(2**SEED_BITS)))
    table = Table([Seat(policy, type(policy).__name__) for policy in policies])
    hand = Hand(game)
    hand.begin_episode(streams)
    hand.on_meta_episode_start(table)
    returns = np.zeros((hands, game.spec.players))
    for number in range(hands):
        hand.deal(table, number)
        returns[number] = hand.state.returns
    return MatchResult(returns)
