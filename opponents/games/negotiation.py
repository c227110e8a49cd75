"""Archetypes of Negotiation. Their aspirations fall with the number of offers, as in Bargaining."""

from __future__ import annotations

import re
from functools import partial

from mage_envs.core import Turn
from mage_envs.opponents.games.bargaining import aspiration
from mage_envs.opponents.pools import register_pool
from mage_envs.opponents.registry import register_opponent
from mage_envs.opponents.splits import Split, register_split
from mage_envs.opponents.tabular import RulePolicy

OFFERS = 10
"""Offers per hand; if none is accepted, both players get nothing."""


def _numbers(line: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r": (\d+)", line))


def aspire(high: float, low: float, beta: float, turn: Turn) -> dict[str, float]:
    """Return the action of a player with falling aspirations.

    The player agrees if the last offer meets its aspiration. Otherwise it makes the offer that meets the aspiration by
    the smallest margin. Among offers of equal worth it keeps the fewest items.
    """
    pool, values, _, *past_offers = turn.information_state.splitlines()
    worth = _numbers(values)
    target = aspiration(len(past_offers), OFFERS, high, low, beta)
    if past_offers:
        own_share = [count - share for count, share in zip(_numbers(pool), _numbers(past_offers[-1]), strict=True)]
        if sum(count * value for count, value in zip(own_share, worth, strict=True)) >= target:
            return {"agree": 1.0}
    offers = [action for action in turn.legal_actions if action != "agree"]
    shares = {offer: tuple(int(number) for number in re.findall(r"\d+", offer)) for offer in offers}
    gains = {offer: sum(n * value for n, value in zip(shares[offer], worth, strict=True)) for offer in offers}
    enough = [offer for offer in offers if gains[offer] >= target]
    # Fewest items at equal worth: items that are worth nothing to this player may be worth something to the other.
    return {min(enough, key=lambda offer: (gains[offer], sum(shares[offer]))): 1.0}


def _build_policy(high: float, low: float, beta: float = 1.0) -> RulePolicy:
    return RulePolicy(partial(aspire, high, low, beta))


fair = partial(_build_policy, high=5, low=5)
"""Opponent that wants half of the points throughout."""
firm = partial(_build_policy, high=7, low=7)
"""Opponent that wants 7 points throughout."""
greedy = partial(_build_policy, high=10, low=8)
"""Opponent that goes from all points down to 8, evenly."""
conceder = partial(_build_policy, high=10, low=2, beta=3)
"""Opponent that goes from all points down to 2, mostly at the start."""
boulware = partial(_build_policy, high=10, low=3, beta=0.25)
"""Opponent that goes from all points down to 3, mostly at the end."""

# By entry point, because a partial has no name under which `module:name` would find its registration.
for _name in ("fair", "greedy", "conceder", "boulware", "firm"):
    register_opponent(f"negotiation/{_name}", entry_point=f"{__name__}:{_name}", games=("Negotiation",))
register_pool("negotiation/four", {f"negotiation/{name}": 1 for name in ("fair", "greedy", "conceder", "boulware")})
register_split(
    "negotiation",
    Split(
        game="Negotiation",
        seed=32,
        train="pool:negotiation/four",
        train_about="four ways to concede",
        heldout=dict.fromkeys(("negotiation/firm", "uniform"), 1.0),
        heldout_about="one that never does, and one at random",
        seats=(0, 1),
    ),
)
