"""Opponents of repeated rock, paper, scissors: fixed preferences, and reactions to the round before."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mage_envs.core import Turn
from mage_envs.games.rock_paper_scissors import BEATEN_BY, CHOICES
from opponents.tabular import RulePolicy, probability_of

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


def _biased(choice: str, probability: float = 0.6) -> RulePolicy:
    return RulePolicy(partial(prefer, choice, probability_of(f"rps/{choice}", probability)))


def _reacting(name: str, reaction: React, probability: float = 1.0) -> RulePolicy:
    return RulePolicy(partial(react, reaction, probability_of(f"rps/{name}", probability)))


def _others(own: str, other: str) -> str:
    return other


def _beats_others(own: str, other: str) -> str:
    return BEATEN_BY[other]


def _beats_own(own: str, other: str) -> str:
    return BEATEN_BY[own]


def _own(own: str, other: str) -> str:
    return own


rock = partial(_biased, "rock")
"""`rps/rock:.8` makes that choice with probability .8, and the others alike."""
paper = partial(_biased, "paper")
"""The same for paper."""
scissors = partial(_biased, "scissors")
"""The same for scissors."""
copy = partial(_reacting, "copy", _others)
"""Makes the other's last choice; with `rps/copy:.85` in 85 of 100 cases, and each other choice alike."""
beat = partial(_reacting, "beat", _beats_others)
"""Makes the choice that beats the other's last."""
cycle = partial(_reacting, "cycle", _beats_own)
"""Makes the choice that beats its own last."""
stay = partial(_reacting, "stay", _own)
"""Makes its own last choice again."""
