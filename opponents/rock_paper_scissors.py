"""Opponents of repeated rock, paper, scissors: fixed preferences, and reactions to the round before."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mage_envs.core import Turn
from mage_envs.games.rock_paper_scissors import BEATEN_BY, CHOICES
from opponents.tabular import RulePolicy

React = Callable[[str, str], str]
"""(one's own last choice, the other's) to the choice that is likeliest now."""


def last_of(turn: Turn) -> tuple[str, str] | None:
    """One's own choice in the round before, and the other's; None in the first."""
    words = turn.information_state.split()
    return (words[-2], words[-1].removeprefix("opp-")) if words else None


def prefer(choice: str, probability: float, turn: Turn) -> dict[str, float]:
    """The rule that makes `choice` with that probability, and each other with half of the rest."""
    return {one: probability if one == choice else (1 - probability) / 2 for one in CHOICES}


def react(reaction: React, probability: float, turn: Turn) -> dict[str, float]:
    """The rule that follows `reaction` with that probability; the first choice is uniform."""
    last = last_of(turn)
    return dict.fromkeys(CHOICES, 1 / 3) if last is None else prefer(reaction(*last), probability, turn)


def _checked(name: str, probability: float) -> float:
    if not 0 <= probability <= 1:
        raise ValueError(f"Opponent {name!r}: {probability} is no probability; it must be from 0 to 1.")
    return probability


def _biased(choice: str, probability: float) -> RulePolicy:
    return RulePolicy(partial(prefer, choice, _checked(f"rps/{choice}", probability)))


def rock(probability: float = 0.6) -> RulePolicy:
    """`rps/rock:.8` makes that choice with probability .8, and the others alike."""
    return _biased("rock", probability)


def paper(probability: float = 0.6) -> RulePolicy:
    """The same for paper."""
    return _biased("paper", probability)


def scissors(probability: float = 0.6) -> RulePolicy:
    """The same for scissors."""
    return _biased("scissors", probability)


def _reacting(name: str, reaction: React, probability: float) -> RulePolicy:
    return RulePolicy(partial(react, reaction, _checked(f"rps/{name}", probability)))


def _others(own: str, other: str) -> str:
    return other


def _beats_others(own: str, other: str) -> str:
    return BEATEN_BY[other]


def _beats_own(own: str, other: str) -> str:
    return BEATEN_BY[own]


def _own(own: str, other: str) -> str:
    return own


def copy(probability: float = 1.0) -> RulePolicy:
    """Makes the other's last choice; with `rps/copy:.85` in 85 of 100 cases, and each other choice alike."""
    return _reacting("copy", _others, probability)


def beat(probability: float = 1.0) -> RulePolicy:
    """Makes the choice that beats the other's last."""
    return _reacting("beat", _beats_others, probability)


def cycle(probability: float = 1.0) -> RulePolicy:
    """Makes the choice that beats its own last."""
    return _reacting("cycle", _beats_own, probability)


def stay(probability: float = 1.0) -> RulePolicy:
    """Makes its own last choice again."""
    return _reacting("stay", _own, probability)
