"""Opponents of Kuhn Poker that change: one that sets a trap, and one that learns to call."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from mage_envs.core import Game, Policy, Turn
from mage_envs.games.kuhn_poker import TO_ACT
from mage_envs.opponents.games.kuhn import policy, profile
from mage_envs.opponents.learning.policy import LearningPolicy
from mage_envs.opponents.switching import switching


class LearnsToCall(LearningPolicy):
    """An opponent that bets and calls with K alone, until the other player has bet or called.

    After one such hand it bets with K and calls with Q and K. After two of them it never bets, and calls with every
    card.
    """

    start = 0

    def __init__(self) -> None:
        honest = policy((0, 0, 1), (0, 0, 1), (0, 1, 1), (0, 1, 1))
        self._stages = (profile("conservative"), honest, profile("caller"))

    def distribution_given(self, turn: Turn, memory: Hashable) -> Mapping[str, float]:
        return self._stages[int(str(memory))].distribution(turn)

    def step(self, memory: Hashable, turn: Turn) -> Hashable:
        # The key is the own card, the betting with b for a bet or a call, and perhaps a card that is shown.
        betting = turn.information_state.partition("|")[0][1:]
        others = [letter for index, letter in enumerate(betting) if TO_ACT[betting[:index]] != turn.player]
        return min(int(str(memory)) + ("b" in others), len(self._stages) - 1)


def build_trapper(game: Game, k: int) -> Policy:
    """Return an opponent that bets and calls with K alone in k episodes, and then calls with every card: `trapper:2`.

    Args:
        k: Number of the first episodes, in which it looks tight.
    """
    if k < 1:
        raise ValueError(f"Opponent 'trapper': k must be 1 or more, got {k}.")
    return switching(profile("conservative"), profile("caller"), k)
