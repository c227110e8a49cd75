"""Populations: which opponents the learner meets in the next rollout, given how it fared so far.

One interface for fixed pools, prioritised sampling (PFSP: Vinyals et al. 2019, "Grandmaster level in StarCraft II")
and a league of the learner's own past selves. The state is plain JSON, so that a checkpoint can carry it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, Protocol, runtime_checkable

Curve = Callable[[float], float]
"""Score against an opponent, in [0, 1], to its priority."""
CURVES: Mapping[str, Curve] = {
    "hard": lambda score: (1 - score) ** 2,
    "linear": lambda score: 1 - score,
    "variance": lambda score: score * (1 - score),
    "even": lambda score: 1.0,
}
"""Named curves: `hard` seeks those that beat the learner, `variance` its equals; `even` ignores the results."""
Result = tuple[str, float]
"""Opponent and the learner's score against it in one meta-episode: 1 won, 0 lost, between for mixed ones."""


@runtime_checkable
class Population(Protocol):
    """Where training opponents come from."""

    def weights(self) -> Mapping[str, float]:
        """Names, as `make_opponent` takes them, with positive weights, for the next rollout."""
        ...

    def record(self, results: Sequence[Result]) -> None:
        """Takes note of a rollout's results."""
        ...

    def wants_snapshot(self, updates: int) -> bool:
        """Whether the learner, after so many updates, is to be frozen and added."""
        ...

    def add(self, name: str, updates: int) -> None:
        """Adds a frozen learner by the name under which it plays."""
        ...

    def state(self) -> dict[str, Any]:
        """All that changes, as JSON values."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes back to what `state` gave."""
        ...


class FixedPool:
    """The same weights throughout."""

    def __init__(self, pool: Mapping[str, float]) -> None:
        self._pool = _checked(pool)

    def weights(self) -> Mapping[str, float]:
        return self._pool

    def record(self, results: Sequence[Result]) -> None: ...

    def wants_snapshot(self, updates: int) -> bool:
        return False

    def add(self, name: str, updates: int) -> None:
        raise ValueError(f"A fixed pool takes no snapshots; seat {name!r} in a League.")

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: Mapping[str, Any]) -> None: ...


class PrioritisedPool(FixedPool):
    """A pool whose weights are multiplied by `curve` of the learner's score against each opponent.

    The score is a mean that forgets: each rollout's results weigh `1 / decay` times those of the one before, and a
    draw (0.5) counts as two results of the beginning. No opponent falls below `floor` of its share.
    """

    def __init__(
        self, pool: Mapping[str, float], curve: str | Curve = "hard", *, decay: float = 0.9, floor: float = 0.1
    ) -> None:
        super().__init__(pool)
        if isinstance(curve, str) and curve not in CURVES:
            raise ValueError(f"curve={curve!r} is unknown; choose one of: {', '.join(CURVES)}, or give a function.")
        if not 0 < decay <= 1 or not 0 < floor <= 1:
            raise ValueError(f"decay={decay} and floor={floor} must be above 0 and at most 1.")
        self._curve = CURVES[curve] if isinstance(curve, str) else curve
        self._decay, self._floor = decay, floor
        self._seen: dict[str, list[float]] = {}
        """Opponent to the sum of its scores and their number, both decayed."""

    def score(self, name: str) -> float:
        """The learner's score against an opponent as it is held now; 0.5 before any result."""
        total, count = self._seen.get(name, (0.0, 0.0))
        return (total + 1.0) / (count + 2.0)

    def weights(self) -> Mapping[str, float]:
        return self.prioritise(self._pool)

    def prioritise(self, pool: Mapping[str, float]) -> dict[str, float]:
        """The pool's weights times the priorities, summing to 1."""
        wanted = {name: weight * max(self._curve(self.score(name)), 0.0) for name, weight in pool.items()}
        whole = sum(pool.values())
        floors = {name: self._floor * weight / whole for name, weight in pool.items()}
        shares: dict[str, float] = {}
        """Of those that the floor holds; each takes from what the others divide, so that more may come to need it."""
        while True:
            others = [name for name in pool if name not in shares]
            left, total = 1.0 - sum(shares.values()), sum(wanted[name] for name in others)
            given = wanted if total else pool
            total = total or sum(pool[name] for name in others)
            divided = {name: left * given[name] / total for name in others}
            low = {name: floors[name] for name, share in divided.items() if share < floors[name]}
            if not low or len(low) == len(others):
                return {name: (shares | divided)[name] for name in pool}
            shares |= low

    def record(self, results: Sequence[Result]) -> None:
        for held in self._seen.values():
            held[0] *= self._decay
            held[1] *= self._decay
        for name, score in results:
            held = self._seen.setdefault(name, [0.0, 0.0])
            held[0] += score
            held[1] += 1.0

    def state(self) -> dict[str, Any]:
        return {"seen": {name: list(held) for name, held in self._seen.items()}}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._seen = {name: [float(value) for value in held] for name, held in state["seen"].items()}


class League(PrioritisedPool):
    """A prioritised pool joined by the learner's past selves: one more every `every` updates, `most` at a time.

    Past selves share `share` of the draws among them. `payoffs` is the matrix of results: row by row the learner
    between two snapshots, each with its opponents.
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
        super().__init__(pool, curve, decay=decay, floor=floor)
        if every < 1 or most < 1 or not 0 < share < 1:
            raise ValueError(
                f"A league needs every >= 1, most >= 1 and a share between 0 and 1; got every={every}, most={most}, "
                f"share={share}."
            )
        self._every, self._share, self._most = every, share, most
        self._selves: list[str] = []
        """Past selves in play, oldest first."""
        self._last = 0
        """Updates at the last snapshot."""
        self._rows: list[dict[str, list[float]]] = [{}]

    @property
    def selves(self) -> tuple[str, ...]:
        """The past selves in play, oldest first."""
        return tuple(self._selves)

    def payoffs(self) -> list[dict[str, tuple[float, int]]]:
        """Per row, opponent to (mean score, meta-episodes)."""
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
        self._selves = [*(held for held in self._selves if held != name), name][-self._most :]
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


def _checked(pool: Mapping[str, float]) -> dict[str, float]:
    if not pool:
        raise ValueError("A population needs at least one opponent with its weight.")
    for name, weight in pool.items():
        if not (isfinite(weight) and weight > 0):
            raise ValueError(f"The weight of {name!r} must be a positive number, got {weight!r}.")
    return dict(pool)
