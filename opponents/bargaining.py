"""Opponents of the bargaining game: they aspire to a number of points, which falls as offers are made.

Source: P. Faratin, C. Sierra and N. Jennings, 1998, "Negotiation decision functions for autonomous agents": after t of
n offers the aspiration is high - (high - low) (t / n)^(1 / beta); beta above 1 concedes early, below 1 late.
"""

from __future__ import annotations

from functools import partial

from mage_envs.core import Game, Turn
from mage_envs.games.bargaining import ACCEPT, ITEMS, REFUSE, TAKEN, Bargaining
from mage_envs.text.spelling import as_word
from opponents.tabular import RulePolicy

_OFFERS = {as_word(offer): items for offer, items in TAKEN.items()}
"""Each offer, as an information state spells it, to what its maker would get."""


def aspiration(made: int, offers: int, high: float, low: float, beta: float) -> float:
    """The points that a player aspires to after so many offers."""
    return float(high - (high - low) * (made / offers) ** (1 / beta) - 1e-9)


def aspire(offers: int, high: float, low: float, beta: float, turn: Turn) -> dict[str, float]:
    """The rule: accept what meets the aspiration, else offer what meets it by as little as possible."""
    words = turn.information_state.split()
    values = dict(zip(ITEMS, map(int, words[: len(ITEMS)]), strict=True))
    said = words[len(ITEMS) :]
    wanted = aspiration(len(said), offers, high, low, beta)
    if said:
        taken = _OFFERS[said[-1].removeprefix("opp-")]
        if sum(value for item, value in values.items() if item not in taken) >= wanted:
            return {ACCEPT: 1.0}
        if len(said) == offers:
            return {REFUSE: 1.0}
    worth = {offer: sum(values[item] for item in items) for offer, items in TAKEN.items()}
    enough = [offer for offer, value in worth.items() if value >= wanted]
    return {min(enough, key=worth.__getitem__): 1.0}


def _made(game: Game, high: float, low: float, beta: float = 1.0) -> RulePolicy:
    if not isinstance(game, Bargaining):
        raise TypeError(f"Bargaining's opponents play Bargaining, not {game.facts.name}.")
    return RulePolicy(partial(aspire, game.offers, high, low, beta))


fair = partial(_made, high=5, low=5)
"""Half of the points, from first to last."""
greedy = partial(_made, high=10, low=7)
"""From everything down to 7 points, evenly."""
conceder = partial(_made, high=10, low=2, beta=3)
"""From everything down to 2 points, most of it at once."""
boulware = partial(_made, high=10, low=3, beta=0.25)
"""From everything down to 3 points, most of it at the end."""
firm = partial(_made, high=7, low=7)
"""7 points, from first to last."""
