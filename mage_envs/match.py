"""`play_match`: policies against each other, without a learner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mage_envs.core import Policy, RemembersMetaEpisode, SeesResults, TextGame


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


def play_match(game: TextGame, policies: Sequence[Policy], rng: np.random.Generator, hands: int = 1) -> MatchResult:
    """Plays `hands` hands; `policies[i]` sits at seat i. An illegal action raises `IllegalAction`."""
    if len(policies) != game.num_players:
        raise ValueError(f"{game.name} has {game.num_players} seats, but {len(policies)} policies were given.")
    for policy in policies:
        if isinstance(policy, RemembersMetaEpisode):
            policy.begin_meta_episode()
    returns = np.zeros((hands, game.num_players))
    for hand in range(hands):
        game.reset(rng)
        for policy in policies:
            policy.reset(rng)
        while (player := game.current_player()) is not None:
            game.apply(policies[player].act(game.turn(player)))
        returns[hand] = game.returns()
        for seat, policy in enumerate(policies):
            if isinstance(policy, SeesResults):
                policy.see_result(game.turn(seat))
    return MatchResult(returns)
