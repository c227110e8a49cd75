"""Archetypes of Leduc Poker: how often a player raises and folds, by the strength of its hand.

A hand is strong with a pair, or with a king before the open card; middling with a king after it, or with a queen
before; else weak.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from mage_envs.core import Turn
from mage_envs.games.openspiel.leduc import field
from opponents.tabular import RulePolicy

Triple = tuple[float, float, float]
"""A probability for a weak, a middling and a strong hand."""


class Style(NamedTuple):
    """What a player does where it could do it; otherwise it checks or calls."""

    raises: Triple
    """Without a raise to answer."""
    reraises: Triple
    folds: Triple


STYLES: Mapping[str, Style] = {  # `leduc/maniac` is the last legal action, always
    "tight": Style((0, 0, 1), (0, 0, 1), (1, 1, 0)),
    "loose": Style((0, 1, 1), (0, 0, 1), (1, 0, 0)),
    "caller": Style((0, 0, 0), (0, 0, 0), (0, 0, 0)),
    "soft-tight": Style((0.05, 0.15, 0.85), (0.02, 0.05, 0.6), (0.9, 0.7, 0.05)),
    "soft-loose": Style((0.2, 0.6, 0.9), (0.05, 0.15, 0.6), (0.6, 0.2, 0.03)),
    "soft-maniac": Style((0.7, 0.8, 0.95), (0.5, 0.6, 0.85), (0.2, 0.05, 0.02)),
    "soft-caller": Style((0.05, 0.1, 0.3), (0.02, 0.05, 0.2), (0.15, 0.05, 0.02)),
}


def strength(information_state: str) -> int:
    """0 for a weak hand, 1 for a middling, 2 for a strong one."""
    own, public = int(field(information_state, "Private")), field(information_state, "Public")
    if not public:
        return own
    return 2 if int(public) == own else int(own == 2)


def play(style: Style, turn: Turn) -> dict[str, float]:
    """The rule of a style; what cannot be raised any more is called."""
    hand, legal = strength(turn.information_state), turn.legal_actions
    faces = "fold" in legal
    folds = style.folds[hand] if faces else 0.0
    raises = (style.reraises if faces else style.raises)[hand] if "raise" in legal else 0.0
    return {"fold": folds, "raise": raises, "call" if faces else "check": 1 - folds - raises}


def _builder(name: str) -> Callable[[], RulePolicy]:
    return partial(RulePolicy, partial(play, STYLES[name]))


tight, loose, caller = _builder("tight"), _builder("loose"), _builder("caller")
soft_tight, soft_loose = _builder("soft-tight"), _builder("soft-loose")
soft_maniac, soft_caller = _builder("soft-maniac"), _builder("soft-caller")
