"""Opponents of the ultimatum game and of bargaining whose demands depend on what happened in earlier hands."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import partial
from typing import cast

from mage_envs.core import Game, Turn
from mage_envs.games.bargaining import ACCEPT as DEAL
from mage_envs.games.bargaining import Bargaining
from mage_envs.games.ultimatum import ACCEPT, REFUSE
from mage_envs.opponents.games.bargaining import aspire
from mage_envs.opponents.games.ultimatum import by_price
from mage_envs.opponents.learning.policy import LearningPolicy


class ChangingPrice(LearningPolicy):
    """A player of the ultimatum game with a price that every answer changes. Offers of the price or more are accepted.

    In the first seat it offers its price.
    """

    def __init__(self, price: int = 5, after_refusal: int = 0, after_acceptance: int = 0, most: int = 8) -> None:
        """Initialize the player.

        Args:
            price: Slices that it wants at first.
            after_refusal: Change of the price after a refusal.
            after_acceptance: Change of the price after an acceptance.
            most: Highest price; the lowest one is 1.

        Raises:
            ValueError: If the first price is outside of the limits.
        """
        if not 1 <= price <= most:
            raise ValueError(f"Opponent 'ultimatum/mood': price must be from 1 to most={most}, got {price}.")
        self.start = price
        self._changes = {ACCEPT: after_acceptance, REFUSE: after_refusal}
        self._most = most

    def distribution_given(self, turn: Turn, memory: Hashable) -> Mapping[str, float]:
        price = self.step(memory, turn)
        chances = by_price(cast("int", price), 0.0, turn)
        return {action: chance for action, chance in chances.items() if chance > 0}

    def step(self, memory: Hashable, turn: Turn) -> Hashable:
        price = cast("int", memory)
        for answer in turn.information_state.split()[1::2]:
            price = min(max(price + self._changes[answer], 1), self._most)
        return price


class ChangingWish(LearningPolicy):
    """A player of the bargaining game that wants a number of points, which the end of each hand changes."""

    def __init__(self, game: Game, wish: int = 5, after_deal: int = 0, after_failure: int = 0) -> None:
        """Initialize the player.

        Args:
            wish: Points that it wants at first, from 1 to 9.
            after_deal: Change after a hand with a deal.
            after_failure: Change after a hand without one.

        Raises:
            ValueError: If the first wish is outside of the limits.
        """
        if not isinstance(game, Bargaining):
            raise TypeError(f"Opponents of Bargaining expect Bargaining, got {game.spec.name}.")
        if not 1 <= wish <= 9:
            raise ValueError(f"Opponent of Bargaining: wish must be from 1 to 9, got {wish}.")
        self.start = wish
        self._offers, self._after_deal, self._after_failure = game.offers, after_deal, after_failure

    def distribution_given(self, turn: Turn, memory: Hashable) -> Mapping[str, float]:
        wish = float(cast("int", memory))
        return aspire(self._offers, wish, wish, 1.0, turn)

    def step(self, memory: Hashable, turn: Turn) -> Hashable:
        is_deal = turn.information_state.endswith(DEAL)
        change = self._after_deal if is_deal else self._after_failure
        return min(max(cast("int", memory) + change, 1), 9)


proud = partial(ChangingPrice, price=3, after_refusal=2)
"""Opponent that wants 3 slices, and 2 more after each offer that it had to refuse."""
yielding = partial(ChangingPrice, price=7, after_refusal=-2)
"""Opponent that wants 7 slices, and 2 fewer after each offer that it refused."""
spoiled = partial(ChangingPrice, price=2, after_acceptance=2)
"""Opponent that wants 2 slices, and 2 more after each offer that it accepted."""
softening = partial(ChangingWish, wish=8, after_failure=-3)
"""Opponent that wants 8 points, and 3 fewer after each hand without a deal."""
hardening = partial(ChangingWish, wish=3, after_deal=2)
"""Opponent that wants 3 points, and 2 more after each deal."""
offended = partial(ChangingWish, wish=5, after_failure=2)
"""Opponent that wants half of the points, and 2 more after each hand without a deal."""
