"""Opponents and pools of opponents: policies that play a seat, by registered name or as classes, which need no base.

For example::

    @register_opponent("wfw/always-water", games=["WaterFireWood"])
    class AlwaysWater:
        def reset(self, rng): ...
        def act(self, turn): return "water"

    policy = make_opponent("wfw/always-water", WaterFireWood())

Importing this package registers the built-in opponents that serve several games. It loads no search, no solver and no
client of a server. The opponents of one game are registered by its module in `mage_envs.opponents.games`, which is
imported when a name needs it. Exact game theory is in `mage_envs.opponents.exact`.
"""

if __name__ == "opponents":
    # Imported from a clone by the name of its folder.
    from mage_envs.loading.folders import use_own_name

    use_own_name(__name__)


from importlib import import_module
from typing import TYPE_CHECKING, Any

# Imported because that registers their opponents.
from mage_envs.opponents import builtin  # noqa: F401
from mage_envs.opponents.learning.policy import LearningPolicy
from mage_envs.opponents.pools import Entry, OpponentPool, PoolSpec, as_pool, list_pools, register_pool
from mage_envs.opponents.registry import (
    OpponentInfo,
    UnknownOpponent,
    list_forms,
    list_kinds,
    list_opponents,
    make_opponent,
    opponent_info,
    register_opponent,
    split_names,
)
from mage_envs.opponents.seating import SeatedOpponents
from mage_envs.opponents.tabular import RulePolicy, TabularPolicy

if TYPE_CHECKING:
    from mage_envs.opponents.llm.opponent import LanguageModelPolicy
    from mage_envs.opponents.populations import CURVES, FixedPool, League, Population, PrioritisedPool
    from mage_envs.opponents.related import register_related

__all__ = [
    "CURVES",
    "Entry",
    "FixedPool",
    "LanguageModelPolicy",
    "League",
    "LearningPolicy",
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
    "list_kinds",
    "list_opponents",
    "list_pools",
    "make_opponent",
    "opponent_info",
    "register_opponent",
    "register_pool",
    "register_related",
    "split_names",
]

_MODULES = {
    "mage_envs.opponents.llm.opponent": ("LanguageModelPolicy",),
    "mage_envs.opponents.populations": ("CURVES", "FixedPool", "League", "Population", "PrioritisedPool"),
    "mage_envs.opponents.related": ("register_related",),
}
"""Module to the names that are imported from it on first use."""


def __getattr__(name: str) -> Any:
    # Lazy, because most environments need none of them.
    for module, names in _MODULES.items():
        if name in names:
            return import_module(module).__dict__[name]
    raise AttributeError(f"module 'mage_envs.opponents' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
