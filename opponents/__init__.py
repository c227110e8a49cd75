"""Opponents: policies for a seat, by name or as plain classes, and pools of them.

    @register_opponent("wfw/always-water", games=["WaterFireWood"])
    class AlwaysWater:
        def reset(self, rng): ...
        def act(self, turn): return "water"

    policy = make_opponent("wfw/always-water", WaterFireWood())

Importing this registers the built-in ones and loads no search or solver. Exact game theory is `opponents.exact`.
"""

from opponents import builtin, kuhn, patterns, placed, switching, uniform  # noqa: F401  (they register)
from opponents.language_model import LanguageModelPolicy
from opponents.pools import Entry, OpponentPool, PoolSpec, as_pool, list_pools, register_pool
from opponents.populations import CURVES, FixedPool, League, Population, PrioritisedPool
from opponents.registry import (
    OpponentInfo,
    UnknownOpponent,
    list_forms,
    list_opponents,
    make_opponent,
    opponent_info,
    register_opponent,
    split_names,
)
from opponents.seating import SeatedOpponents
from opponents.tabular import RulePolicy, TabularPolicy

__all__ = [
    "CURVES",
    "Entry",
    "FixedPool",
    "LanguageModelPolicy",
    "League",
    "OpponentInfo",
    "OpponentPool",
    "PoolSpec",
    "Population",
    "PrioritisedPool",
    "RulePolicy",
    "SeatedOpponents",
    "TabularPolicy",
    "UnknownOpponent",
    "as_pool",
    "list_forms",
    "list_opponents",
    "list_pools",
    "make_opponent",
    "opponent_info",
    "register_opponent",
    "register_pool",
    "split_names",
]
