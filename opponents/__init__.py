"""Opponents and pools of opponents: policies that play a seat, by registered name or as plain classes.

    @register_opponent("wfw/always-water", games=["WaterFireWood"])
    class AlwaysWater:
        def reset(self, rng): ...
        def act(self, turn): return "water"

    policy = make_opponent("wfw/always-water", WaterFireWood())

Importing this package registers the built-in opponents that serve several games. It loads no search and no solver. The
opponents of one game are registered by its module in `opponents.games`, which is imported when a name needs it. Exact
game theory is in `opponents.exact`.
"""

# These modules are imported because that registers their opponents.
from opponents import builtin, uniform  # noqa: F401
from opponents.adaptive import switching  # noqa: F401
from opponents.games import by_position  # noqa: F401
from opponents.llm.opponent import LanguageModelPolicy
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
