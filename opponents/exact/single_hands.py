"""The value of one hand against a pool, for a learner without memory and for a learner that knows the opponent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mage_envs.core import Game, Policy, is_state_policy
from mage_envs.opponents.exact.bayes import build_hands
from mage_envs.opponents.exact.best_response import BestResponse, respond
from mage_envs.opponents.exact.sampled import GROUPS, HALVES, Sampled, interval, sample
from mage_envs.opponents.exact.tree import (
    NotExact,
    Objective,
    in_episode,
    is_exact,
    no_distribution,
    require_no_memory,
)
from mage_envs.opponents.exact.values import value_of_response
from mage_envs.opponents.pools import OpponentPool
from mage_envs.opponents.registry import make_opponent

SAMPLES = 20
"""Suggested number of sampled moves per information state, for a fair estimate."""

Bounds = tuple[float, float]
"""Lower and upper end of a 95% interval."""


@dataclass(frozen=True)
class HandValues:
    """The values of one hand of an episode; estimates with bounds if moves were sampled."""

    blind: float
    """Value without memory of earlier hands."""
    known: float
    """Value if the learner knows the opponent."""
    bounds: Mapping[str, Bounds] = field(default_factory=dict)
    """Intervals of `blind`, `known` and their difference `adaptation`; empty if all values are exact."""


class SingleHands:
    """A pool of exact policies, sampled if necessary, with the values of one hand against it."""

    def __init__(
        self, game: Game, pool: OpponentPool, seats: Sequence[int], objective: Objective, samples: int, seed: int
    ) -> None:
        """Sample the policies of the pool that require it.

        Args:
            game: Game with an enumerable tree.
            seats: Seats of the learner; values are means over them.
            objective: Payoff that is maximised, `returns` or `success`.
            samples: Moves per information state for policies without `distribution`; 0 rejects such policies.

        Raises:
            NotExact: If a policy remembers earlier hands, or has no `distribution` while `samples` is 0.
            NotEnumerable: If the tree of the game cannot be enumerated.
        """
        self._game, self._seats, self._objective = game, seats, objective
        self._sampled: dict[int, Sampled] = {}
        """Sampled policies by their index in the pool."""
        policies: list[Policy] = []
        for index, entry in enumerate(pool.entries):
            policy = require_no_memory(make_opponent(entry, game), entry)
            if not is_exact(policy):
                if samples == 0:
                    raise NotExact(f"{no_distribution(entry)} Sampled moves give an estimate: samples={SAMPLES}.")
                # Each policy has a generator of its own, so its samples do not depend on the rest of the pool.
                self._sampled[index] = sample(game, policy, samples, np.random.default_rng(seed))
                policy = self._sampled[index].table()
            policies.append(policy)
        self._policies = policies
        self.pool = OpponentPool(zip(policies, pool.weights, strict=True))
        self.learner_hands = build_hands(game, self.pool, objective)
        self._values: dict[int, HandValues] = {}
        """Values by episode; only episode 0 if no opponent changes between episodes."""
        self.changes = not all(map(is_state_policy, policies))
        """True if an opponent changes between episodes."""

    def values(self, episode: int = 0) -> HandValues:
        """Return the values of a hand of an episode, as means over the seats."""
        if not self.changes:
            episode = 0
        if episode not in self._values:
            self._values[episode] = self._estimate(episode) if self._sampled else self._exact(episode)
        return self._values[episode]

    def _exact(self, episode: int) -> HandValues:
        best = self._best([in_episode(policy, episode) for policy in self._policies])
        return HandValues(best.blind_value(), best.informed_value())

    def _estimate(self, episode: int) -> HandValues:
        """Return estimates with intervals, from the two halves of the samples."""
        # Each half evaluates the other half's responses (lower bound) and its own (upper bound).
        best_by_half = [self._best(self._opponents(episode, half)) for half in range(HALVES)]
        lower: dict[str, list[tuple[float, list[float]]]] = {"blind": [], "known": [], "adaptation": []}
        upper: dict[str, list[tuple[float, list[float]]]] = {"blind": [], "known": [], "adaptation": []}
        for half in range(HALVES):
            other_best = best_by_half[1 - half]
            evaluations = [(best_by_half[half], self._opponents(episode, half))]
            # The jackknife repeats this without each group of the evaluating half; the choosing half stays whole.
            for group in range(GROUPS):
                opponents = self._opponents(episode, half, group)
                evaluations.append((self._best(opponents, best_by_half[half]), opponents))
            rows = [_bound_values(other_best, best, opponents) for best, opponents in evaluations]
            for name in lower:
                lower[name].append((rows[0][name][0], [row[name][0] for row in rows[1:]]))
                upper[name].append((rows[0][name][1], [row[name][1] for row in rows[1:]]))
        bounds = {name: interval(lower[name], upper[name]) for name in lower}
        # Knowing the opponent cannot lower the value, so the headroom is at least 0.
        bounds["adaptation"] = max(0.0, bounds["adaptation"][0]), bounds["adaptation"][1]
        return HandValues(
            blind=sum(value for value, _ in lower["blind"]) / HALVES,
            known=sum(value for value, _ in lower["known"]) / HALVES,
            bounds=bounds,
        )

    def _opponents(self, episode: int, half: int, without: int | None = None) -> list[Policy]:
        tables = [
            self._sampled[index].table(half, without) if index in self._sampled else policy
            for index, policy in enumerate(self._policies)
        ]
        return [in_episode(policy, episode) for policy in tables]

    def _best(self, opponents: Sequence[Policy], like: _Best | None = None) -> _Best:
        """Return the best play against these opponents."""
        # Policies that were not sampled are the same in every half and group, so `like` provides their responses.
        game, seats, objective = self._game, self._seats, self._objective
        return _Best(
            game=game,
            seats=seats,
            objective=objective,
            weights=self.pool.weights,
            responses=[
                like.responses[index]
                if like is not None and index not in self._sampled
                else [respond(game, [opponent], [1.0], seat, objective) for seat in seats]
                for index, opponent in enumerate(opponents)
            ],
            blinds=[respond(game, opponents, self.pool.weights, seat, objective) for seat in seats],
        )


@dataclass(frozen=True, kw_only=True)
class _Best:
    """The best play of a hand against each of some opponents, and against their mixture, for each seat."""

    game: Game
    seats: Sequence[int]
    objective: Objective
    weights: Sequence[float]
    responses: Sequence[Sequence[BestResponse]]
    """Best responses to each opponent, by seat."""
    blinds: Sequence[BestResponse]
    """Best responses to the mixture, by seat."""

    def blind_value(self) -> float:
        """Return the value of the blind play against the opponents that it was chosen for."""
        return sum(response.value for response in self.blinds) / len(self.seats)

    def informed_value(self) -> float:
        """Return the value of the responses against the opponents that they were chosen for."""
        means = [sum(response.value for response in responses) / len(self.seats) for responses in self.responses]
        return sum(weight * mean for weight, mean in zip(self.weights, means, strict=True))

    def blind_value_against(self, opponents: Sequence[Policy]) -> float:
        """Return the value of the blind play against other opponents."""
        return self._mean(self.blinds, opponents, self.weights)

    def informed_value_against(self, opponents: Sequence[Policy]) -> float:
        """Return the value of the responses against other opponents."""
        rows = zip(self.weights, self.responses, opponents, strict=True)
        return sum(weight * self._mean(responses, [opponent], [1.0]) for weight, responses, opponent in rows)

    def _mean(self, responses: Sequence[BestResponse], opponents: Sequence[Policy], weights: Sequence[float]) -> float:
        values = [
            value_of_response(self.game, response.policy, opponents, weights, seat, self.objective)
            for seat, response in zip(self.seats, responses, strict=True)
        ]
        return sum(values) / len(values)


def _bound_values(other_best: _Best, best: _Best, opponents: Sequence[Policy]) -> dict[str, Bounds]:
    """Return a lower and an upper estimate of each value against `opponents`.

    `best` was chosen for these opponents, `other_best` for others.
    """
    blind = other_best.blind_value_against(opponents), best.blind_value()
    informed = other_best.informed_value_against(opponents), best.informed_value()
    # The difference is smallest for the lower known and the upper blind value, and largest for the opposite.
    return {"blind": blind, "known": informed, "adaptation": (informed[0] - blind[1], informed[1] - blind[0])}
