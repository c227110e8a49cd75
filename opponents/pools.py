"""Weighted mixtures of opponents, one of which is drawn per meta-episode."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from mage_envs.arguments import nearest_name
from mage_envs.core import Policy
from mage_envs.plugins import load_announced
from mage_envs.randomness import Stream
from opponents.registry import UnknownOpponent

Entry = str | Policy
"""An opponent in a pool: a name as `make_opponent` takes it, or a policy."""


@dataclass(frozen=True, init=False)
class OpponentPool:
    """Opponents with weights, normalised to sum to 1.

    `opponents` maps names or policies to positive weights; pairs do as well (for policies that do not hash).
    Raises `ValueError` for an empty pool, a bad weight or a repeated name, `TypeError` for what is no opponent.
    """

    entries: tuple[Entry, ...]
    weights: tuple[float, ...]

    def __init__(self, opponents: Mapping[Any, float] | Iterable[tuple[Entry, float]]) -> None:
        pairs = list(opponents.items() if isinstance(opponents, Mapping) else opponents)
        if not pairs:
            raise ValueError("An opponent pool needs at least one opponent with its weight.")
        for entry, weight in pairs:
            _check(entry, weight)
        names = [entry for entry, _ in pairs if isinstance(entry, str)]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"Opponent {name!r} is in the pool twice; add its weights.")
        total = sum(weight for _, weight in pairs)
        object.__setattr__(self, "entries", tuple(entry for entry, _ in pairs))
        object.__setattr__(self, "weights", tuple(weight / total for _, weight in pairs))

    def __len__(self) -> int:
        return len(self.entries)

    def draw(self, rng: Stream | np.random.Generator) -> Entry:
        """One opponent by weight; exactly one `rng.random()`, also from a pool of one."""
        return self.entries[self.index(rng.random())]

    def index(self, draw: float) -> int:
        """The place of the entry for a uniform number in [0, 1)."""
        for place, weight in enumerate(self.weights):
            draw -= weight
            if draw < 0:
                return place
        return len(self.weights) - 1


PoolSpec = str | Policy | OpponentPool | Mapping[Any, float]
"""What `opponent=` takes: a name, `"pool:name"`, a policy, a pool, or a mapping of entries to weights.

(`Any`, because the key type of `Mapping` is invariant; each key is checked to be an `Entry`.)
"""


def _check(entry: object, weight: object) -> None:
    if isinstance(entry, str):
        if entry.startswith("pool:"):
            raise ValueError(
                f"A pool holds opponents, not pools: put the opponents of {entry!r} in, with their weights."
            )
    elif isinstance(entry, type) or not isinstance(entry, Policy):
        raise TypeError(f"A pool holds names and policies, not {entry!r}.")
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not (isfinite(weight) and weight > 0):
        raise ValueError(f"The weight of {entry!r} must be a positive number, got {weight!r}.")


_POOLS: dict[str, OpponentPool] = {}


def register_pool(name: str, pool: OpponentPool | Mapping[str, float]) -> None:
    """Names a pool, for `"pool:<name>"`; raises `ValueError` when the name stands for another pool."""
    made = pool if isinstance(pool, OpponentPool) else OpponentPool(pool)
    if _POOLS.get(name, made) != made:
        raise ValueError(f"Pool {name!r} is already registered with other opponents; choose another name.")
    _POOLS[name] = made


def list_pools() -> tuple[str, ...]:
    """Names of the registered pools, sorted."""
    load_announced("opponents")
    return tuple(sorted(_POOLS))


def as_pool(spec: PoolSpec) -> OpponentPool:
    """The pool that `spec` stands for; a single name or policy is a pool of one.

    Raises `UnknownOpponent` for an unknown pool. Names of opponents are checked by `make_opponent`, per game.
    """
    if isinstance(spec, OpponentPool):
        return spec
    if isinstance(spec, str) and spec.startswith("pool:"):
        return _named(spec.removeprefix("pool:"))
    if isinstance(spec, Mapping):
        return OpponentPool(spec)
    return OpponentPool([(spec, 1.0)])


def _named(name: str) -> OpponentPool:
    if name not in _POOLS:
        hint = nearest_name(name, list_pools())
        if name not in _POOLS:  # a plug-in may have brought it
            raise UnknownOpponent(f"Unknown pool {name!r}.{hint} list_pools() names them all.")
    return _POOLS[name]


_PATTERNS = tuple(f"tictactoe/pattern-{number}" for number in range(1, 7))

register_pool("tictactoe/balanced", {"mcts:100": 8, **dict.fromkeys(_PATTERNS, 1), "uniform": 2})
register_pool("tictactoe/skewed", {"mcts:100": 4, **dict.fromkeys(_PATTERNS, 1.5), "uniform": 3})
register_pool("tictactoe/patterns", dict.fromkeys(_PATTERNS, 1))
register_pool("kuhn/paper", {"kuhn/conservative": 0.3, "kuhn/aggressive": 0.3, "kuhn/intermediate": 0.4})
register_pool(
    "kuhn/demo",
    dict.fromkeys(("kuhn/soft-conservative", "kuhn/soft-aggressive", "kuhn/soft-station", "kuhn/soft-scared"), 1),
)
register_pool("pd/classic", dict.fromkeys(("pd/all-c", "pd/all-d", "pd/tit-for-tat", "pd/grim", "pd/pavlov"), 1))
register_pool("ultimatum/reserves", {f"ultimatum/reserve:{price}": 1 for price in range(1, 9)})
register_pool("ultimatum/soft-reserves", {f"ultimatum/soft-reserve:{price}": 1 for price in range(1, 9)})
register_pool(
    "inspect/four", dict.fromkeys(("inspect/greedy", "inspect/repeat", "inspect/avoid-last", "inspect/random"), 1)
)
register_pool(
    "inspect/habits",
    {
        "inspect/greedy": 1,
        **{f"inspect/repeat:{place}": 1 for place in ("gallery", "archive", "garage", "garden")},
        "inspect/avoid-last": 1,
        "inspect/random": 1,
    },
)
register_pool("rps/biased", dict.fromkeys(("rps/rock", "rps/paper", "rps/scissors"), 1))
register_pool("rps/strongly-biased", dict.fromkeys(("rps/rock:.8", "rps/paper:.8", "rps/scissors:.8"), 1))
_REACTIONS = ("rps/copy", "rps/beat", "rps/cycle", "rps/stay")
register_pool("rps/reactive", dict.fromkeys(_REACTIONS, 1))
register_pool("rps/soft-reactive", {f"{name}:.85": 1 for name in _REACTIONS})
for _game in ("leduc", "liars"):
    for _pool, _soft in (("four", ""), ("soft", "soft-")):
        _styles = (f"{_game}/{_soft}{style}" for style in ("tight", "loose", "maniac", "caller"))
        register_pool(f"{_game}/{_pool}", dict.fromkeys(_styles, 1))
_TACTICS = ("fair", "greedy", "conceder", "boulware")
register_pool("bargain/four", {f"bargain/{tactic}": 1 for tactic in _TACTICS})
register_pool("negotiation/four", {f"negotiation/{tactic}": 1 for tactic in _TACTICS})
