"""Opponents of repeated matching pennies: fixed preferences, and the pool of those that learn."""

from __future__ import annotations

from functools import partial

from mage_envs.core import Turn
from mage_envs.games.matching_pennies import CHOICES
from mage_envs.opponents.learning.matrix_games import register_learners
from mage_envs.opponents.pools import register_pool
from mage_envs.opponents.registry import register_opponent
from mage_envs.opponents.tabular import RulePolicy, probability_of


def prefer(choice: str, probability: float, turn: Turn) -> dict[str, float]:
    """Return `probability` for `choice`, and the rest for the other one."""
    return {option: probability if option == choice else 1 - probability for option in CHOICES}


def _build_biased(choice: str, probability: float = 0.7) -> RulePolicy:
    return RulePolicy(partial(prefer, choice, probability_of(f"pennies/{choice}", probability)))


heads = partial(_build_biased, "heads")
"""Opponent that prefers heads; `pennies/heads:.8` shows it with probability .8."""
tails = partial(_build_biased, "tails")
"""Opponent that prefers tails."""

# By entry point, because a partial has no name under which `module:name` would find its registration.
for _name in CHOICES:
    register_opponent(f"pennies/{_name}", entry_point=f"{__name__}:{_name}", games=("MatchingPennies",))
register_learners("MatchingPennies")
register_pool("pennies/learners", dict.fromkeys(("fictitious", "winstay", "qlearner", "level:2"), 1))
