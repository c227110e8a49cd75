"""Opponents of the ultimatum game: responders with a price, below which a soft one still accepts one offer of ten.

In the first seat they offer that price.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import partial
from typing import cast

from mage_envs.core import Turn
from mage_envs.games.ultimatum import ACCEPT, REFUSE, offer, slices_of
from mage_envs.opponents.learning.policy import LearningPolicy
from mage_envs.opponents.pools import register_pool
from mage_envs.opponents.registry import register_opponent
from mage_envs.opponents.splits import Split, register_split
from mage_envs.opponents.tabular import RulePolicy


def by_price(price: int, below: float, turn: Turn) -> dict[str, float]:
    """Return probabilities that accept `price` or more always, and less with the probability `below`."""
    if turn.player == 0:
        # Legal offers range from 1 slice to the whole pie, but a price may be 0 or more than the pie.
        max_slices = slices_of(turn.legal_actions[-1])
        return {offer(min(max(price, 1), max_slices)): 1.0}
    offered = int(turn.information_state.rpartition("-")[2])
    accepts = 1.0 if offered >= price else below
    return {ACCEPT: accepts, REFUSE: 1 - accepts}


@register_opponent("ultimatum/reserve", games=("Ultimatum",))
def reserve(price: int = 5) -> RulePolicy:
    """Return an opponent that accepts `price` slices or more and refuses less: `ultimatum/reserve:3`."""
    return _build_policy("ultimatum/reserve", price, 0.0)


@register_opponent("ultimatum/soft-reserve", games=("Ultimatum",))
def soft_reserve(price: int = 5, below: float = 0.1) -> RulePolicy:
    """Return an opponent that accepts `price` slices or more, and less with the probability `below`.

    `ultimatum/soft-reserve:3` accepts less than 3 slices in one of ten cases.
    """
    return _build_policy("ultimatum/soft-reserve", price, below)


def _build_policy(name: str, price: int, below: float) -> RulePolicy:
    if price < 0 or not 0 <= below <= 1:
        raise ValueError(
            f"Opponent {name!r}: price must be 0 or more and the probability from 0 to 1, got {price} and {below:g}."
        )
    return RulePolicy(partial(by_price, price, below))


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


proud = partial(ChangingPrice, price=3, after_refusal=2)
"""Opponent that wants 3 slices, and 2 more after each offer that it had to refuse."""
yielding = partial(ChangingPrice, price=7, after_refusal=-2)
"""Opponent that wants 7 slices, and 2 fewer after each offer that it refused."""
spoiled = partial(ChangingPrice, price=2, after_acceptance=2)
"""Opponent that wants 2 slices, and 2 more after each offer that it accepted."""

_MOODS = ("proud", "yielding", "spoiled")
register_opponent(
    "ultimatum/mood",
    entry_point=f"{__name__}:ChangingPrice",
    games=("Ultimatum",),
    form="ultimatum/mood:price",
    kind="learning",
)
for _name in _MOODS:
    register_opponent(
        f"ultimatum/{_name}",
        entry_point=f"{__name__}:{_name}",
        games=("Ultimatum",),
        kind="learning",
    )
register_pool("ultimatum/moods", {**{f"ultimatum/{name}": 1 for name in _MOODS}, "ultimatum/reserve:3": 1})
register_pool("ultimatum/reserves", {f"ultimatum/reserve:{price}": 1 for price in range(1, 9)})
register_pool("ultimatum/soft-reserves", {f"ultimatum/soft-reserve:{price}": 1 for price in range(1, 9)})
register_split(
    "ultimatum",
    Split(
        game="Ultimatum",
        seed=20,
        train="pool:ultimatum/reserves",
        train_about="hidden prices from 1 to 8",
        heldout={f"ultimatum/soft-reserve:{price}": 1.0 for price in (2, 4, 7)},
        heldout_about="prices that are not kept in one case of ten",
        headroom=(("ultimatum/reserves", {}), ("ultimatum/reserves", {"offers": 2})),
    ),
)
