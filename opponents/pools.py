"""Weighted pools of opponents, from which one opponent is drawn per meta-episode."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from mage_envs.core import Policy
from mage_envs.loading.arguments import nearest_name
from mage_envs.opponents.registry import UnknownOpponent, is_policy, load_all_opponents, load_opponents
from mage_envs.random.streams import Stream

Entry = str | Policy
"""An opponent in a pool: a specification for `make_opponent`, or a policy."""


@dataclass(frozen=True, init=False)
class OpponentPool:
    """Opponents with weights, normalised to sum to 1.

    `opponents` maps names or policies to positive weights. Pairs work as well, for policies that cannot be hashed.

    Raises:
        ValueError: If the pool is empty, a weight is not a positive number, or a name is repeated.
        TypeError: If an entry is neither a name nor a policy.
    """

    entries: tuple[Entry, ...]
    weights: tuple[float, ...]

    def __init__(self, opponents: Mapping[Any, float] | Iterable[tuple[Entry, float]]) -> None:
        pairs = list(opponents.items() if isinstance(opponents, Mapping) else opponents)
        if not pairs:
            raise ValueError("An opponent pool requires at least one opponent with its weight.")
        for entry, weight in pairs:
            _check(entry, weight)
        names = [entry for entry, _ in pairs if isinstance(entry, str)]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"Opponent {name!r} is in the pool twice. List it once, with the sum of its weights.")
        total = sum(weight for _, weight in pairs)
        # The dataclass is frozen, so its fields are set through `object`.
        object.__setattr__(self, "entries", tuple(entry for entry, _ in pairs))
        object.__setattr__(self, "weights", tuple(weight / total for _, weight in pairs))

    def __len__(self) -> int:
        return len(self.entries)

    def draw(self, rng: Stream | np.random.Generator) -> Entry:
        """Return one opponent drawn by weight, with exactly one `rng.random()` even from a pool of one."""
        return self.entries[self.index(rng.random())]

    def index(self, draw: float) -> int:
        """Return the index of the entry for a uniform number in [0, 1)."""
        for index, weight in enumerate(self.weights):
            draw -= weight
            if draw < 0:
                return index
        # Rounding may leave a sum of weights slightly below 1; the last entry gets the remainder.
        return len(self.weights) - 1


PoolSpec = str | Policy | OpponentPool | Mapping[Any, float]
"""Value of `opponent=`: a name, `"pool:name"`, a policy, a pool, or a mapping of entries to weights.

The key type is `Any`, because the key type of `Mapping` is invariant. Each key is checked to be an `Entry`.
"""


def _check(entry: object, weight: object) -> None:
    if isinstance(entry, str):
        if entry.startswith("pool:"):
            raise ValueError(
                f"A pool holds opponents, not pools. Replace {entry!r} by its opponents, with their weights."
            )
    elif not is_policy(entry):
        raise TypeError(f"A pool holds names and policies, got {entry!r}.")
    # A bool is an int in Python, but as a weight it is a mistake.
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not (isfinite(weight) and weight > 0):
        raise ValueError(f"The weight of {entry!r} must be a positive number, got {weight!r}.")


_POOLS: dict[str, OpponentPool] = {}


def register_pool(name: str, pool: OpponentPool | Mapping[str, float]) -> None:
    """Register a pool as `"pool:<name>"`; raise `ValueError` if the name belongs to a different pool."""
    new_pool = pool if isinstance(pool, OpponentPool) else OpponentPool(pool)
    # A name of a game's own pools must be found taken, even if their module was not needed before.
    load_opponents(name)
    if _POOLS.get(name, new_pool) != new_pool:
        raise ValueError(f"Pool {name!r} is already registered with other opponents; choose another name.")
    _POOLS[name] = new_pool


def list_pools() -> tuple[str, ...]:
    """Return the names of the registered pools, sorted."""
    load_all_opponents()
    return tuple(sorted(_POOLS))


def as_pool(spec: PoolSpec) -> OpponentPool:
    """Return the pool of a specification; a single name or policy is a pool of one.

    Raises `UnknownOpponent` for an unknown pool. Names of opponents are checked later, by `make_opponent`, per game.
    """
    if isinstance(spec, OpponentPool):
        return spec
    if isinstance(spec, str) and spec.startswith("pool:"):
        return _find_pool(spec.removeprefix("pool:"))
    if isinstance(spec, Mapping):
        return OpponentPool(spec)
    return OpponentPool([(spec, 1.0)])


def _find_pool(name: str) -> OpponentPool:
    if name not in _POOLS:
        load_opponents(name)
    if name not in _POOLS:
        hint = nearest_name(name, list_pools())
        # `list_pools` has loaded all modules, one of which may have registered the pool.
        if name not in _POOLS:
            raise UnknownOpponent(f"Unknown pool {name!r}.{hint} list_pools() returns all names.")
    return _POOLS[name]
