"""Kuhn Poker opponents as tables of probabilities.

A profile holds P(bet | first to act), P(bet | after a check) and P(call | facing a bet), each for J, Q and K.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import partial

from mage_envs.core import Game, Policy, Turn
from mage_envs.games.kuhn_poker import TO_ACT
from mage_envs.opponents.learning.policy import LearningPolicy
from mage_envs.opponents.pools import register_pool
from mage_envs.opponents.registry import register_opponent
from mage_envs.opponents.switching import switching
from mage_envs.opponents.tabular import TabularPolicy

_GAMES = ("KuhnPoker",)

Triple = tuple[float, float, float]
"""Probabilities for J, Q and K."""

PROFILES: Mapping[str, tuple[Triple, Triple, Triple]] = {
    "conservative": ((0, 0, 1), (0, 0, 1), (0, 0, 1)),
    "aggressive": ((1, 1, 1), (1, 1, 1), (0, 1, 1)),
    "intermediate": ((0, 1, 1), (0, 1, 1), (0, 0, 1)),
    "maniac": ((1, 1, 1), (1, 1, 1), (1, 1, 1)),
    "caller": ((0, 0, 0), (0, 0, 0), (1, 1, 1)),
    "bluffer": ((1, 0, 1), (1, 0, 1), (0, 0, 1)),
    "passive": ((0, 0, 0), (0, 0, 0), (0, 0, 0)),
    "soft-conservative": ((0.03, 0.05, 0.85), (0.03, 0.10, 0.95), (0.02, 0.12, 0.97)),
    "soft-aggressive": ((0.75, 0.75, 0.95), (0.80, 0.85, 0.97), (0.35, 0.90, 0.98)),
    "soft-station": ((0.03, 0.03, 0.15), (0.05, 0.05, 0.30), (0.60, 0.95, 0.98)),
    "soft-scared": ((0.70, 0.55, 0.75), (0.75, 0.65, 0.85), (0.02, 0.12, 0.75)),
    "soft-intermediate": ((0.30, 0.10, 0.85), (0.33, 0.10, 0.95), (0.03, 0.40, 0.98)),
}


def policy(bet_first: Triple, bet_after_check: Triple, call_bet: Triple, call_after_check: Triple) -> TabularPolicy:
    """Return the policy with these probabilities for J, Q and K.

    Args:
        bet_first: P(bet) as the first to act.
        bet_after_check: P(bet) after the other player's check.
        call_bet: P(call) if the other player bets first.
        call_after_check: P(call) if the other player bets after one's own check.
    """
    table = {}
    # Keys are information states: the card, then p (check) and b (bet), as OpenSpiel writes the betting.
    for index, card in enumerate("JQK"):
        for betting, bets in (("", bet_first), ("p", bet_after_check)):
            table[card + betting] = {"check": 1 - bets[index], "bet": bets[index]}
        for betting, calls in (("b", call_bet), ("pb", call_after_check)):
            table[card + betting] = {"fold": 1 - calls[index], "call": calls[index]}
    return TabularPolicy(table)


def profile(name: str) -> TabularPolicy:
    """Return the policy of one of `PROFILES`."""
    bet_first, bet_after_check, call = PROFILES[name]
    return policy(bet_first, bet_after_check, call, call)


@register_opponent("kuhn/nash", games=_GAMES)
def nash(alpha: float = 1 / 6) -> TabularPolicy:
    """Return an equilibrium: the first player bets J with probability alpha in [0, 1/3] and K with 3 alpha.

    The first player's value is -1/18 for every alpha (H. W. Kuhn, 1950, "Simplified two-person poker").
    """
    if not 0 <= alpha <= 1 / 3:
        raise ValueError(f"Opponent 'kuhn/nash': alpha must be in [0, 1/3], got {alpha}.")
    return policy((alpha, 0, 3 * alpha), (1 / 3, 0, 1), (0, 1 / 3, 1), (0, alpha + 1 / 3, 1))


@register_opponent("kuhn/learns-to-call", games=_GAMES, kind="learning")
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


@register_opponent("trapper", games=_GAMES, needs_game=True, form="trapper:k", kind="learning")
def build_trapper(game: Game, k: int) -> Policy:
    """Return an opponent that bets and calls with K alone in k episodes, and then calls with every card: `trapper:2`.

    Args:
        game: Game that is played.
        k: Number of the first episodes, in which it looks tight.
    """
    if k < 1:
        raise ValueError(f"Opponent 'trapper': k must be 1 or more, got {k}.")
    return switching(profile("conservative"), profile("caller"), k)


for _name in PROFILES:
    register_opponent(f"kuhn/{_name}", games=_GAMES)(partial(profile, _name))
register_opponent("kuhn/rock", alias_of="kuhn/conservative")
register_pool("kuhn/paper", {"kuhn/conservative": 0.3, "kuhn/aggressive": 0.3, "kuhn/intermediate": 0.4})
register_pool(
    "kuhn/demo",
    dict.fromkeys(("kuhn/soft-conservative", "kuhn/soft-aggressive", "kuhn/soft-station", "kuhn/soft-scared"), 1),
)
register_pool("kuhn/learners", dict.fromkeys(("kuhn/conservative", "trapper:2", "kuhn/learns-to-call"), 1))
