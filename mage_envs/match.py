"""`play_match`: policies against each other, without a learner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mage_envs.core import Game, Policy
from mage_envs.hand import Hand
from mage_envs.randomness import SEED_BITS, Streams
from mage_envs.seats import Seat, Table


class MatchResult(NamedTuple):
    """The returns of every hand and player, in the game's unit."""

    returns: np.ndarray
    """Shape (hands, players)."""

    @property
    def mean(self) -> np.ndarray:
        """Mean return per player, shape (players,)."""
        return np.asarray(self.returns.mean(axis=0))

    @property
    def standard_error(self) -> np.ndarray:
        """Standard error of the mean, shape (players,); NaN for a single hand."""
        hands = len(self.returns)
        if hands < 2:
            return np.full(self.returns.shape[1], np.nan)
        return np.asarray(self.returns.std(axis=0, ddof=1) / np.sqrt(hands))


def play_match(game: Game, policies: Sequence[Policy], rng: np.random.Generator, hands: int = 1) -> MatchResult:
    """Plays `hands` hands; `policies[i]` sits at seat i. One that fails or acts illegally raises `OpponentFailure`."""
    if len(policies) != game.facts.players:
        raise ValueError(f"{game.facts.name} has {game.facts.players} seats, but {len(policies)} policies were given.")
    streams = Streams(int(rng.integers(2**SEED_BITS)))
    table = Table([Seat(policy, type(policy).__name__) for policy in policies])
    hand = Hand(game)
    hand.begin_episode(streams)
    hand.begin_meta_episode(table)
    returns = np.zeros((hands, game.facts.players))
    for number in range(hands):
        hand.deal(table, number)
        returns[number] = hand.state.returns
    return MatchResult(returns)
