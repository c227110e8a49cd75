"""Opponents of the inspection game: attackers in the second seat, defenders with the same habits in the first."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from mage_envs.core import Turn
from mage_envs.games.inspection import PLACES
from mage_envs.opponents.pools import register_pool
from mage_envs.opponents.registry import register_opponent
from mage_envs.opponents.splits import Split, register_split
from mage_envs.opponents.tabular import RulePolicy, probability_of

_GAMES = ("Inspection",)


def _even(places: tuple[str, ...]) -> dict[str, float]:
    return dict.fromkeys(places, 1 / len(places))


def prefer_vault(probability: float, turn: Turn) -> Mapping[str, float]:
    """Return `probability` for the vault, and equal shares of the rest for the other places."""
    return {**dict.fromkeys(PLACES, (1 - probability) / (len(PLACES) - 1)), PLACES[0]: probability}


def repeat_first(openings: tuple[str, ...], turn: Turn) -> Mapping[str, float]:
    """Return an even draw from `openings` in the first round, then that first choice again."""
    words = turn.information_state.split()
    return {words[0]: 1.0} if words else _even(openings)


def avoid_inspected(turn: Turn) -> Mapping[str, float]:
    """Return equal probabilities for all places but the one that was inspected last."""
    words = turn.information_state.split()
    if not words:
        return _even(PLACES)
    # The second seat attacks, so the inspected place is the other player's last word there, one's own in the first.
    inspected = words[-1].removeprefix("opp-") if turn.player else words[-2]
    return _even(tuple(place for place in PLACES if place != inspected))


@register_opponent("inspect/greedy", games=_GAMES)
def greedy(probability: float = 1.0) -> RulePolicy:
    """Return an opponent that chooses the vault with `probability`, and each other place equally often."""
    return RulePolicy(partial(prefer_vault, probability_of("inspect/greedy", probability)))


@register_opponent("inspect/repeat", games=_GAMES)
def repeat(place: str = "") -> RulePolicy:
    """Return an opponent that keeps its first place for the whole hand: any place, or the one that is named.

    `inspect/repeat:garage` starts with the garage.
    """
    if place and place not in PLACES:
        raise ValueError(f"Opponent 'inspect/repeat': place must be one of {', '.join(PLACES)}, got {place!r}.")
    return RulePolicy(partial(repeat_first, (place,) if place else PLACES))


@register_opponent("inspect/avoid-last", games=_GAMES)
def avoid_last() -> RulePolicy:
    """Return an opponent that avoids the place that was inspected in the previous round."""
    return RulePolicy(avoid_inspected)


# The stage game has one equilibrium. The attacker must catch the same chance in each place that it visits, and the
# defender must leave it the same gain there: worth * (1 - probability) = 120/47.
_DEFENDS: Mapping[str, float] = {"vault": 23 / 47, "gallery": 17 / 47, "archive": 7 / 47}
_ATTACKS: Mapping[str, float] = dict.fromkeys(_DEFENDS, 1 / 3)


def play_stage(turn: Turn) -> Mapping[str, float]:
    """Return the probabilities of the stage game's equilibrium."""
    return _ATTACKS if turn.player else _DEFENDS


@register_opponent("inspect/nash", games=_GAMES)
def nash() -> RulePolicy:
    """Return an equilibrium: in every round the unique equilibrium of one round."""
    return RulePolicy(play_stage)


register_opponent("inspect/random", alias_of="uniform", games=_GAMES)
register_pool(
    "inspect/four", dict.fromkeys(("inspect/greedy", "inspect/repeat", "inspect/avoid-last", "inspect/random"), 1)
)
register_pool(
    "inspect/habits",
    {
        "inspect/greedy": 1,
        **{f"inspect/repeat:{place}": 1 for place in PLACES[1:]},
        "inspect/avoid-last": 1,
        "inspect/random": 1,
    },
)
register_split(
    "inspect",
    Split(
        game="Inspection",
        seed=26,
        train="pool:inspect/habits",
        train_about="attackers with habits, and one at random",
        heldout=dict.fromkeys(("inspect/greedy:.6", "inspect/repeat"), 1.0),
        heldout_about="softer habits",
    ),
)
