"""Archetypes of Leduc Poker. A style says how often a player raises and folds, by the strength of its hand.

Before the public card a king is strong, a queen middling and a jack weak. After it a pair is strong, a king without a
pair middling and all else weak.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from mage_envs.core import Turn
from mage_envs.games.openspiel.leduc import field
from mage_envs.opponents.pools import register_pool
from mage_envs.opponents.registry import register_opponent
from mage_envs.opponents.splits import Split, register_split
from mage_envs.opponents.tabular import RulePolicy

_GAMES = ("LeducPoker",)

Triple = tuple[float, float, float]
"""Probabilities for a weak, a middling and a strong hand."""


class Style(NamedTuple):
    """Probabilities of raising and folding; the player checks or calls with the rest."""

    raises: Triple
    """Probabilities of a raise if there is no raise to answer."""
    reraises: Triple
    """Probabilities of a raise if the player faces one."""
    folds: Triple
    """Probabilities of a fold if the player faces a raise."""


# There is no "maniac" here: `leduc/maniac` is an alias of `last`, the last legal action.
STYLES: Mapping[str, Style] = {
    "tight": Style((0, 0, 1), (0, 0, 1), (1, 1, 0)),
    "loose": Style((0, 1, 1), (0, 0, 1), (1, 0, 0)),
    "caller": Style((0, 0, 0), (0, 0, 0), (0, 0, 0)),
    "soft-tight": Style((0.05, 0.15, 0.85), (0.02, 0.05, 0.6), (0.9, 0.7, 0.05)),
    "soft-loose": Style((0.2, 0.6, 0.9), (0.05, 0.15, 0.6), (0.6, 0.2, 0.03)),
    "soft-maniac": Style((0.7, 0.8, 0.95), (0.5, 0.6, 0.85), (0.2, 0.05, 0.02)),
    "soft-caller": Style((0.05, 0.1, 0.3), (0.02, 0.05, 0.2), (0.15, 0.05, 0.02)),
}


def strength(information_state: str) -> int:
    """Return 0 for a weak hand, 1 for a middling one and 2 for a strong one."""
    # Ranks are 0 (jack), 1 (queen) and 2 (king); before the public card they are the strengths themselves.
    private, public = int(field(information_state, "Private")), field(information_state, "Public")
    if not public:
        return private
    return 2 if int(public) == private else int(private == 2)


def play(style: Style, turn: Turn) -> dict[str, float]:
    """Return a style's probabilities at a turn; if raising is not legal, the player calls instead."""
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

# By entry point, because a partial has no name under which `module:name` would find its registration.
for _name in STYLES:
    register_opponent(f"leduc/{_name}", entry_point=f"{__name__}:{_name.replace('-', '_')}", games=_GAMES)
register_opponent("leduc/maniac", alias_of="last", games=_GAMES)
for _pool, _soft in (("four", ""), ("soft", "soft-")):
    _styles = (f"leduc/{_soft}{style}" for style in ("tight", "loose", "maniac", "caller"))
    register_pool(f"leduc/{_pool}", dict.fromkeys(_styles, 1))
register_split(
    "leduc",
    Split(
        game="LeducPoker",
        seed=28,
        train="pool:leduc/four",
        train_about="four archetypes",
        heldout="pool:leduc/soft",
        heldout_about="the same four, less pure",
        seats=(0, 1),
    ),
)
