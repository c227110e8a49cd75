"""Opponents that take the action of a fixed place in the list, whatever is going on."""

from __future__ import annotations

from functools import partial

import numpy as np

from mage_envs.core import Turn
from opponents.registry import register_opponent

GAMES = ("TicTacToe", "LeducPoker", "ConnectFour", "LiarsDice", "Negotiation", "Breakthrough", "OpenSpiel")
"""Not Kuhn Poker, where the first action is what `kuhn/passive` plays and the last what `kuhn/maniac` does."""


class Placed:
    """Takes the legal action at `place`."""

    follows_information_state = True

    def __init__(self, place: int) -> None:
        self._place = place

    def reset(self, rng: np.random.Generator) -> None:
        """Starts a hand, which changes nothing."""

    def act(self, turn: Turn) -> str:
        return turn.legal_actions[self._place]

    def distribution(self, turn: Turn) -> dict[str, float]:
        """Probability 1 for the one action."""
        return {self.act(turn): 1.0}


first, last = partial(Placed, 0), partial(Placed, -1)
register_opponent("first", games=GAMES)(first)
register_opponent("last", games=GAMES)(last)
register_opponent("leduc/maniac", alias_of="last", games=("LeducPoker",))
