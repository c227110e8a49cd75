"""Archetypes of Negotiation: aspirations that fall with the offers made, as in `opponents.bargaining`."""

from __future__ import annotations

import re
from functools import partial

from mage_envs.core import Turn
from opponents.bargaining import aspiration
from opponents.tabular import RulePolicy

OFFERS = 10
"""After which nobody gets anything."""


def _numbers(line: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r": (\d+)", line))


def aspire(high: float, low: float, beta: float, turn: Turn) -> dict[str, float]:
    """The rule: agree to what meets the aspiration, else keep what meets it by as little as possible.

    An offer leaves the other as much as one can leave without loss: of equal ones it is the smallest.
    """
    pool, values, _, *said = turn.information_state.splitlines()
    worth = _numbers(values)
    wanted = aspiration(len(said), OFFERS, high, low, beta)
    if said:
        rest = [count - kept for count, kept in zip(_numbers(pool), _numbers(said[-1]), strict=True)]
        if sum(count * value for count, value in zip(rest, worth, strict=True)) >= wanted:
            return {"agree": 1.0}
    offers = [action for action in turn.legal_actions if action != "agree"]
    kept = {offer: tuple(int(number) for number in re.findall(r"\d+", offer)) for offer in offers}
    gains = {offer: sum(n * value for n, value in zip(kept[offer], worth, strict=True)) for offer in offers}
    enough = [offer for offer in offers if gains[offer] >= wanted]
    return {min(enough, key=lambda offer: (gains[offer], sum(kept[offer]))): 1.0}


def _made(high: float, low: float, beta: float = 1.0) -> RulePolicy:
    return RulePolicy(partial(aspire, high, low, beta))


fair = partial(_made, high=5, low=5)
"""Half of the points, from first to last."""
firm = partial(_made, high=7, low=7)
"""7 points, from first to last."""
greedy = partial(_made, high=10, low=8)
"""From everything down to 8 points, evenly."""
conceder = partial(_made, high=10, low=2, beta=3)
"""From everything down to 2 points, most of it at once."""
boulware = partial(_made, high=10, low=3, beta=0.25)
"""From everything down to 3 points, most of it at the end."""
