"""Opponents of repeated rock, paper, scissors: fixed preferences, and reactions to the previous round."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mage_envs.core import Turn
from mage_envs.games.rock_paper_scissors import BEATEN_BY, CHOICES
from mage_envs.opponents.learning.matrix_games import register_learners
from mage_envs.opponents.pools import register_pool
from mage_envs.opponents.registry import register_opponent
from mage_envs.opponents.splits import Split, register_split
from mage_envs.opponents.tabular import RulePolicy, probability_of

React = Callable[[str, str], str]
"""Function from one's own last choice and the other player's to the likeliest next choice."""


def last_of(turn: Turn) -> tuple[str, str] | None:
    """Return both players' choices in the previous round, one's own first; None in the first round."""
    words = turn.information_state.split()
    return (words[-2], words[-1].removeprefix("opp-")) if words else None


def prefer(choice: str, probability: float, turn: Turn) -> dict[str, float]:
    """Return `probability` for `choice`, and half of the rest for each other choice."""
    return {option: probability if option == choice else (1 - probability) / 2 for option in CHOICES}


def react(reaction: React, probability: float, turn: Turn) -> dict[str, float]:
    """Return `probability` for the choice of `reaction`; the first round is uniform."""
    last_choices = last_of(turn)
    return dict.fromkeys(CHOICES, 1 / 3) if last_choices is None else prefer(reaction(*last_choices), probability, turn)


def _build_biased(choice: str, probability: float = 0.6) -> RulePolicy:
    return RulePolicy(partial(prefer, choice, probability_of(f"rps/{choice}", probability)))


def _build_reacting(name: str, reaction: React, probability: float = 1.0) -> RulePolicy:
    return RulePolicy(partial(react, reaction, probability_of(f"rps/{name}", probability)))


def _others(own_choice: str, other_choice: str) -> str:
    return other_choice


def _beats_others(own_choice: str, other_choice: str) -> str:
    return BEATEN_BY[other_choice]


def _beats_own(own_choice: str, other_choice: str) -> str:
    return BEATEN_BY[own_choice]


def _own(own_choice: str, other_choice: str) -> str:
    return own_choice


rock = partial(_build_biased, "rock")
"""Opponent that prefers rock; `rps/rock:.8` plays it with probability .8, and each other choice with .1."""
paper = partial(_build_biased, "paper")
"""Opponent that prefers paper."""
scissors = partial(_build_biased, "scissors")
"""Opponent that prefers scissors."""
copy = partial(_build_reacting, "copy", _others)
"""Opponent that repeats the other player's last choice; `rps/copy:.85` does so with probability .85."""
beat = partial(_build_reacting, "beat", _beats_others)
"""Opponent that plays the choice that beats the other player's last one."""
cycle = partial(_build_reacting, "cycle", _beats_own)
"""Opponent that plays the choice that beats its own last one."""
stay = partial(_build_reacting, "stay", _own)
"""Opponent that repeats its own last choice."""

# By entry point, because a partial has no name under which `module:name` would find its registration.
for _name in ("rock", "paper", "scissors", "copy", "beat", "cycle", "stay"):
    register_opponent(f"rps/{_name}", entry_point=f"{__name__}:{_name}", games=("RockPaperScissors",))
_REACTIONS = ("rps/copy", "rps/beat", "rps/cycle", "rps/stay")
register_learners("RockPaperScissors")
register_pool("rps/biased", dict.fromkeys(("rps/rock", "rps/paper", "rps/scissors"), 1))
register_pool("rps/strongly-biased", dict.fromkeys(("rps/rock:.8", "rps/paper:.8", "rps/scissors:.8"), 1))
register_pool("rps/reactive", dict.fromkeys(_REACTIONS, 1))
register_pool("rps/soft-reactive", {f"{name}:.85": 1 for name in _REACTIONS})
register_pool("rps/learners", dict.fromkeys(("fictitious:.15", "winstay", "rps/rock:.7"), 1))
register_split(
    "rps",
    Split(
        game="RockPaperScissors",
        seed=22,
        train="pool:rps/reactive",
        train_about="four reactions to the round before",
        heldout=dict.fromkeys(("rps/rock", "rps/paper", "rps/scissors", "rps/beat:.7"), 1.0),
        heldout_about="fixed preferences, and a soft reaction",
        headroom=(("rps/learners", {"rounds": 2}),),
    ),
)
