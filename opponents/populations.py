"""Populations: training opponents with weights that depend on the learner's results so far.

The interface covers fixed pools, prioritised sampling (PFSP: Vinyals et al. 2019, "Grandmaster level in StarCraft II")
and a league with the learner's own past versions. A population's state is plain JSON, so a checkpoint can store it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, Protocol, runtime_checkable

Curve = Callable[[float], float]
"""Function from the learner's score against an opponent, in [0, 1], to the opponent's priority."""
CURVES: Mapping[str, Curve] = {
    "hard": lambda score: (1 - score) ** 2,
    "linear": lambda score: 1 - score,
    "variance": lambda score: score * (1 - score),
    "even": lambda score: 1.0,
}
"""Curves by name: `hard` and `linear` prefer opponents that beat the learner, `variance` opponents of equal strength.

`even` ignores the results.
"""
Result = tuple[str, float]
"""(opponent, score) of one meta-episode: 1 if the learner won, 0 if it lost, between for a mixed result."""


@runtime_checkable
class Population(Protocol):
    """A source of training opponents."""

    def weights(self) -> Mapping[str, float]:
        """Return the opponents of the next rollout: specifications for `make_opponent`, with positive weights."""
        ...

    def record(self, results: Sequence[Result]) -> None:
        """Record the results of a rollout."""
        ...

    def wants_snapshot(self, updates: int) -> bool:
        """Return True if a frozen copy of the learner must be added after this number of updates."""
        ...

    def add(self, name: str, updates: int) -> None:
        """Add a frozen copy of the learner, by its name as an opponent."""
        ...

    def state(self) -> dict[str, Any]:
        """Return the mutable state as JSON values."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a state that `state` returned."""
        ...


class FixedPool:
    """A population with constant weights."""

    def __init__(self, pool: Mapping[str, float]) -> None:
        self._pool = _check_pool(pool)

    def weights(self) -> Mapping[str, float]:
        return self._pool

    def record(self, results: Sequence[Result]) -> None: ...

    def wants_snapshot(self, updates: int) -> bool:
        return False

    def add(self, name: str, updates: int) -> None:
        raise ValueError(f"A fixed pool accepts no snapshots, got {name!r}. Use a League.")

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: Mapping[str, Any]) -> None: ...


class PrioritisedPool(FixedPool):
    """A pool with weights that are multiplied by `curve` of the learner's score against each opponent.

    The score is a decayed mean: a rollout's results have `1 / decay` times the weight of those of the previous rollout.
    It starts from two results of 0.5 that do not decay.
    """

    def __init__(
        self, pool: Mapping[str, float], curve: str | Curve = "hard", *, decay: float = 0.9, floor: float = 0.1
    ) -> None:
        """Initialize the pool.

        Args:
            pool: Opponents with positive weights.
            curve: Name in `CURVES`, or a function from a score to a priority.
            decay: Factor of earlier results per rollout, in (0, 1].
            floor: Minimum share of an opponent, as a fraction of its share in `pool`, in (0, 1].

        Raises:
            ValueError: If the curve is unknown or a number is out of range.
        """
        super().__init__(pool)
        if isinstance(curve, str) and curve not in CURVES:
            raise ValueError(f"curve={curve!r} is unknown; choose one of: {', '.join(CURVES)}, or pass a function.")
        if not 0 < decay <= 1 or not 0 < floor <= 1:
            raise ValueError(f"decay and floor must be above 0 and at most 1, got {decay=} and {floor=}.")
        self._curve = CURVES[curve] if isinstance(curve, str) else curve
        self._decay, self._floor = decay, floor
        self._seen: dict[str, list[float]] = {}
        """Map from opponent to [sum of the learner's scores, number of results], both decayed."""

    def score(self, name: str) -> float:
        """Return the learner's present score against an opponent; 0.5 before any result."""
        total, count = self._seen.get(name, (0.0, 0.0))
        # Two pseudo-results of 0.5 (Laplace's rule) keep a single first result from ruling the weights.
        return (total + 1.0) / (count + 2.0)

    def weights(self) -> Mapping[str, float]:
        return self.prioritise(self._pool)

    def prioritise(self, pool: Mapping[str, float]) -> dict[str, float]:
        """Return the pool's weights times the priorities, normalised to sum to 1 and bounded by the floor."""
        priorities = {name: weight * max(self._curve(self.score(name)), 0.0) for name, weight in pool.items()}
        total_weight = sum(pool.values())
        floors = {name: self._floor * weight / total_weight for name, weight in pool.items()}
        shares: dict[str, float] = {}
        """Shares of the opponents that are held at their floor."""
        # Raising one opponent to its floor leaves less for the others, so more may fall below theirs: repeat until
        # none does. Each pass fixes at least one opponent, so this terminates.
        while True:
            others = [name for name in pool if name not in shares]
            free_share, total = 1.0 - sum(shares.values()), sum(priorities[name] for name in others)
            # If every other priority is 0, the others share in proportion to their weights in the pool.
            weights = priorities if total else pool
            total = total or sum(pool[name] for name in others)
            divided = {name: free_share * weights[name] / total for name in others}
            low = {name: floors[name] for name, share in divided.items() if share < floors[name]}
            if not low or len(low) == len(others):
                return {name: (shares | divided)[name] for name in pool}
            shares |= low

    def record(self, results: Sequence[Result]) -> None:
        for totals in self._seen.values():
            totals[0] *= self._decay
            totals[1] *= self._decay
        for name, score in results:
            totals = self._seen.setdefault(name, [0.0, 0.0])
            totals[0] += score
            totals[1] += 1.0

    def state(self) -> dict[str, Any]:
        return {"seen": {name: list(totals) for name, totals in self._seen.items()}}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._seen = {name: [float(value) for value in totals] for name, totals in state["seen"].items()}


class League(PrioritisedPool):
    """A prioritised pool that also contains past versions of the learner.

    `payoffs` returns the matrix of results. Each row is the learner between two snapshots, each column an opponent.
    """

    def __init__(
        self,
        pool: Mapping[str, float],
        every: int,
        *,
        share: float = 0.5,
        most: int = 10,
        curve: str | Curve = "hard",
        decay: float = 0.9,
        floor: float = 0.1,
    ) -> None:
        """Initialize the league.

        Args:
            pool: Opponents with positive weights, besides the past versions.
            every: Updates between two snapshots.
            share: Total share of the past versions, between 0 and 1.
            most: Maximum number of past versions; the oldest leaves first.
            curve: Name in `CURVES`, or a function from a score to a priority.
            decay: Factor of earlier results per rollout, in (0, 1].
            floor: Minimum share of an opponent, as a fraction of its unprioritised share, in (0, 1].

        Raises:
            ValueError: If the curve is unknown or a number is out of range.
        """
        super().__init__(pool, curve, decay=decay, floor=floor)
        if every < 1 or most < 1 or not 0 < share < 1:
            raise ValueError(
                f"A league requires every >= 1, most >= 1 and a share between 0 and 1, got every={every}, "
                f"most={most}, share={share}."
            )
        self._every, self._share, self._most = every, share, most
        self._selves: list[str] = []
        """Names of the past versions in the pool, oldest first."""
        self._last = 0
        """Number of updates at the last snapshot."""
        self._rows: list[dict[str, list[float]]] = [{}]

    @property
    def selves(self) -> tuple[str, ...]:
        """Names of the past versions in the pool, oldest first."""
        return tuple(self._selves)

    def payoffs(self) -> list[dict[str, tuple[float, int]]]:
        """Return, for each row, a map from opponent to (mean score, number of meta-episodes)."""
        return [{name: (total / count, int(count)) for name, (total, count) in row.items()} for row in self._rows]

    def weights(self) -> Mapping[str, float]:
        if not self._selves:
            return super().weights()
        others = self.prioritise(self._pool)
        selves = self.prioritise(dict.fromkeys(self._selves, 1.0))
        return {name: (1 - self._share) * weight for name, weight in others.items()} | {
            name: self._share * weight for name, weight in selves.items()
        }

    def record(self, results: Sequence[Result]) -> None:
        super().record(results)
        for name, score in results:
            cell = self._rows[-1].setdefault(name, [0.0, 0.0])
            cell[0] += score
            cell[1] += 1.0

    def wants_snapshot(self, updates: int) -> bool:
        return updates - self._last >= self._every

    def add(self, name: str, updates: int) -> None:
        # A name that is added again moves to the end instead of counting twice.
        self._selves = [*(version for version in self._selves if version != name), name][-self._most :]
        self._last = updates
        self._rows.append({})

    def state(self) -> dict[str, Any]:
        rows = [{name: list(cell) for name, cell in row.items()} for row in self._rows]
        return {**super().state(), "selves": list(self._selves), "last": self._last, "payoffs": rows}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self._selves = list(state["selves"])
        self._last = int(state["last"])
        self._rows = [{name: [float(v) for v in cell] for name, cell in row.items()} for row in state["payoffs"]]


def _check_pool(pool: Mapping[str, float]) -> dict[str, float]:
    if not pool:
        raise ValueError("A population requires at least one opponent with its weight.")
    for name, weight in pool.items():
        if not (isfinite(weight) and weight > 0):
            raise ValueError(f"The weight of {name!r} must be a positive number, got {weight!r}.")
    return dict(pool)
