"""Opponents that always play the first or the last legal action."""

from __future__ import annotations

from functools import partial

import numpy as np

from mage_envs.core import Turn
from opponents.registry import register_opponent

GAMES = ("TicTacToe", "LeducPoker", "ConnectFour", "LiarsDice", "Negotiation", "Breakthrough", "OpenSpiel")
"""Games of these opponents. Kuhn Poker has `kuhn/passive` (the first action) and `kuhn/maniac` (the last) instead."""


class Placed:
    """A policy that plays the legal action at index `place`."""

    follows_information_state = True

    def __init__(self, place: int) -> None:
        self._place = place

    def reset(self, rng: np.random.Generator) -> None:
        """Start a hand; the policy has no state."""

    def act(self, turn: Turn) -> str:
        return turn.legal_actions[self._place]

    def distribution(self, turn: Turn) -> dict[str, float]:
        """Return probability 1 for the one action."""
        return {self.act(turn): 1.0}


first, last = partial(Placed, 0), partial(Placed, -1)
register_opponent("first", games=GAMES)(first)
register_opponent("last", games=GAMES)(last)
