"""Opponents of the inspection game; they attack in the second seat, and defend by the same habits in the first."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from mage_envs.core import Turn
from mage_envs.games.inspection import PLACES
from opponents.tabular import RulePolicy, probability_of


def _even(places: tuple[str, ...]) -> dict[str, float]:
    return dict.fromkeys(places, 1 / len(places))


def prefer_vault(probability: float, turn: Turn) -> Mapping[str, float]:
    """The rule of the greedy one."""
    return {**dict.fromkeys(PLACES, (1 - probability) / (len(PLACES) - 1)), PLACES[0]: probability}


def repeat_first(first: tuple[str, ...], turn: Turn) -> Mapping[str, float]:
    """The rule that stays with its first choice, any of `first`."""
    words = turn.information_state.split()
    return {words[0]: 1.0} if words else _even(first)


def avoid_inspected(turn: Turn) -> Mapping[str, float]:
    """The rule that goes to any place but the one that was inspected last."""
    words = turn.information_state.split()
    if not words:
        return _even(PLACES)
    inspected = words[-1].removeprefix("opp-") if turn.player else words[-2]
    return _even(tuple(place for place in PLACES if place != inspected))


def greedy(probability: float = 1.0) -> RulePolicy:
    """The vault, always; `inspect/greedy:.6` in 60 of 100 cases, and each other place alike."""
    return RulePolicy(partial(prefer_vault, probability_of("inspect/greedy", probability)))


def repeat(place: str = "") -> RulePolicy:
    """Any place in the first round, with `inspect/repeat:garage` that one, and then the same to the end of the hand."""
    if place and place not in PLACES:
        raise ValueError(f"Opponent 'inspect/repeat': {place!r} is no place; choose one of: {', '.join(PLACES)}.")
    return RulePolicy(partial(repeat_first, (place,) if place else PLACES))


def avoid_last() -> RulePolicy:
    """Any place but the one that was inspected in the round before."""
    return RulePolicy(avoid_inspected)
