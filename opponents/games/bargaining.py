"""Opponents of the bargaining game. They aspire to a number of points, which falls with each offer.

Source: P. Faratin, C. Sierra and N. Jennings, 1998, "Negotiation decision functions for autonomous agents". After t of
n offers the aspiration is high - (high - low) (t / n)^(1 / beta). With beta above 1 a player concedes early, with beta
below 1 late.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import partial
from typing import cast

from mage_envs.core import Game, Turn
from mage_envs.games.bargaining import ACCEPT, ITEMS, REFUSE, TAKEN, Bargaining
from mage_envs.opponents.learning.policy import LearningPolicy
from mage_envs.opponents.pools import register_pool
from mage_envs.opponents.registry import register_opponent
from mage_envs.opponents.splits import Split, register_split
from mage_envs.opponents.tabular import RulePolicy
from mage_envs.text.words.spelling import as_word

_OFFERS = {as_word(offer): items for offer, items in TAKEN.items()}
"""Map from an offer, as an information state spells it, to the items that its maker would get."""


def aspiration(offers_made: int, offers: int, high: float, low: float, beta: float) -> float:
    """Return the points that a player aspires to.

    Args:
        offers_made: Offers so far, by both players.
        offers: Maximum number of offers in a hand.
        high: Aspiration before the first offer, in points.
        low: Aspiration after the last offer, in points.
        beta: Shape of the concession: above 1 early, below 1 late.
    """
    # The small constant keeps an offer that equals the aspiration acceptable in spite of rounding.
    return float(high - (high - low) * (offers_made / offers) ** (1 / beta) - 1e-9)


def aspire(offers: int, high: float, low: float, beta: float, turn: Turn) -> dict[str, float]:
    """Return the action of a player with falling aspirations.

    The player accepts if the last offer meets its aspiration. Otherwise it makes the offer that meets the aspiration by
    the smallest margin.
    """
    words = turn.information_state.split()
    values = dict(zip(ITEMS, map(int, words[: len(ITEMS)]), strict=True))
    past_offers = words[len(ITEMS) :]
    target = aspiration(len(past_offers), offers, high, low, beta)
    if past_offers:
        offered_items = _OFFERS[past_offers[-1].removeprefix("opp-")]
        if sum(value for item, value in values.items() if item not in offered_items) >= target:
            return {ACCEPT: 1.0}
        if len(past_offers) == offers:
            return {REFUSE: 1.0}
    worth = {offer: sum(values[item] for item in items) for offer, items in TAKEN.items()}
    enough = [offer for offer, value in worth.items() if value >= target]
    return {min(enough, key=worth.__getitem__): 1.0}


def _build_policy(game: Game, high: float, low: float, beta: float = 1.0) -> RulePolicy:
    if not isinstance(game, Bargaining):
        raise TypeError(f"Opponents of Bargaining expect Bargaining, got {game.spec.name}.")
    return RulePolicy(partial(aspire, game.offers, high, low, beta))


class ChangingWish(LearningPolicy):
    """A player of the bargaining game that wants a number of points, which the end of each hand changes."""

    def __init__(self, game: Game, wish: int = 5, after_deal: int = 0, after_failure: int = 0) -> None:
        """Initialize the player.

        Args:
            game: Bargaining.
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
        is_deal = turn.information_state.endswith(ACCEPT)
        change = self._after_deal if is_deal else self._after_failure
        return min(max(cast("int", memory) + change, 1), 9)


fair = partial(_build_policy, high=5, low=5)
"""Opponent that wants half of the points throughout."""
greedy = partial(_build_policy, high=10, low=7)
"""Opponent that goes from all points down to 7, evenly."""
conceder = partial(_build_policy, high=10, low=2, beta=3)
"""Opponent that goes from all points down to 2, mostly at the start."""
boulware = partial(_build_policy, high=10, low=3, beta=0.25)
"""Opponent that goes from all points down to 3, mostly at the end."""
firm = partial(_build_policy, high=7, low=7)
"""Opponent that wants 7 points throughout."""

softening = partial(ChangingWish, wish=8, after_failure=-3)
"""Opponent that wants 8 points, and 3 fewer after each hand without a deal."""
hardening = partial(ChangingWish, wish=3, after_deal=2)
"""Opponent that wants 3 points, and 2 more after each deal."""
offended = partial(ChangingWish, wish=5, after_failure=2)
"""Opponent that wants half of the points, and 2 more after each hand without a deal."""

# By entry point, because a partial has no name under which `module:name` would find its registration.
for _name in ("fair", "greedy", "conceder", "boulware", "firm"):
    register_opponent(f"bargain/{_name}", entry_point=f"{__name__}:{_name}", games=("Bargaining",), needs_game=True)
_LEARNERS = ("softening", "hardening", "offended")
for _name in _LEARNERS:
    register_opponent(
        f"bargain/{_name}",
        entry_point=f"{__name__}:{_name}",
        games=("Bargaining",),
        needs_game=True,
        kind="learning",
    )
register_pool("bargain/learners", {f"bargain/{name}": 1 for name in _LEARNERS})
register_pool("bargain/four", {f"bargain/{name}": 1 for name in ("fair", "greedy", "conceder", "boulware")})
register_pool("bargain/mixed", {f"bargain/{name}": 1 for name in ("fair", "greedy", "conceder", "firm")})
register_split(
    "bargain",
    Split(
        game="Bargaining",
        seed=24,
        train="pool:bargain/four",
        train_about="four ways to concede",
        heldout=dict.fromkeys(("bargain/firm", "uniform"), 1.0),
        heldout_about="one that never does, and one at random",
        seats=(0, 1),
        headroom=(("bargain/mixed", {"offers": 3}), ("bargain/learners", {"offers": 3})),
    ),
)
