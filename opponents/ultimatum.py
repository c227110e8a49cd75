"""Opponents of the ultimatum game: responders with a price. In the first seat they offer what they would accept."""

from __future__ import annotations

from functools import partial

from mage_envs.core import Turn
from mage_envs.games.ultimatum import ACCEPT, REFUSE, offer, slices_of
from opponents.tabular import RulePolicy


def by_price(price: int, below: float, turn: Turn) -> dict[str, float]:
    """The rule that accepts from `price` on, and less with the probability `below`."""
    if turn.player == 0:
        most = slices_of(turn.legal_actions[-1])
        return {offer(min(max(price, 1), most)): 1.0}
    offered = int(turn.information_state.rpartition("-")[2])
    accepts = 1.0 if offered >= price else below
    return {ACCEPT: accepts, REFUSE: 1 - accepts}


def reserve(price: int = 5) -> RulePolicy:
    """`ultimatum/reserve:3` accepts 3 slices and more, and refuses less."""
    return _made("ultimatum/reserve", price, 0.0)


def soft_reserve(price: int = 5, below: float = 0.1) -> RulePolicy:
    """`ultimatum/soft-reserve:3` accepts 3 slices and more; less in one case of ten, or with another probability."""
    return _made("ultimatum/soft-reserve", price, below)


def _made(name: str, price: int, below: float) -> RulePolicy:
    if price < 0 or not 0 <= below <= 1:
        raise ValueError(f"Opponent {name!r}: the price is at least 0 and the probability from 0 to 1.")
    return RulePolicy(partial(by_price, price, below))
