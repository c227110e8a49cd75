"""Exact values next to the scores: ceilings, and the best policies without information about the opponent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mage_envs.core import Game, Policy, is_state_policy
from mage_envs.opponents import TabularPolicy, UnknownOpponent, make_opponent
from mage_envs.opponents.exact import NotExact, Objective, bayes_value, best_nonadaptive, ceiling, policy_value
from mage_envs.opponents.exact.learner_hands import TooManyStates
from mage_envs.opponents.exact.tree import in_episode, is_exact
from mage_envs.tree import is_enumerable
from mage_envs.wrappers.rollout.trajectory import Trajectory

STATES = 100_000
"""Maximum number of belief states for the optimal learner. It is omitted above; `mage headroom` allows more."""


class ExactValues:
    """Exact values of one game, each computed once. A value is None if the game or an opponent has no exact value."""

    def __init__(self, game: Game, pool: Mapping[str, float]) -> None:
        self._game = game
        self._pool = pool
        self._policies: dict[tuple[str, int], Policy | None] = {}
        self._known: dict[tuple[object, ...], float | None] = {}
        self._responses: dict[tuple[int, int, Objective], TabularPolicy | float | None] = {}

    def _policy(self, name: str, episode: int) -> Policy | None:
        """Return the opponent's policy in that episode, or None if it has no exact probabilities.

        If the policy reads only the information state, all episodes share one object, which is the key of the caches
        below.
        """
        if (name, episode) not in self._policies:
            policy: Policy | None = None
            if self._game.spec.players == 2 and is_enumerable(self._game):
                try:
                    policy = make_opponent(name, self._game)
                except UnknownOpponent:
                    # The name belongs to an instance that is not registered.
                    policy = None
            if policy is not None and not is_exact(policy):
                policy = None
            if policy is not None:
                first_policy = self._policy(name, 0) if episode > 0 else None
                is_shared = first_policy is not None and is_state_policy(first_policy)
                policy = first_policy if is_shared else in_episode(policy, episode)
            self._policies[name, episode] = policy
        return self._policies[name, episode]

    def ceiling(self, name: str, episode: int, seat: int, objective: Objective) -> float | None:
        """Return the best response value against the opponent.

        Args:
            episode: Episode, from 0, because the opponent may change between episodes.
        """
        policy = self._policy(name, episode)
        key = ("ceiling", policy, seat, objective)
        if key not in self._known:
            self._known[key] = None if policy is None else ceiling(self._game, policy, seat, objective)
        return self._known[key]

    def blind(
        self, name: str, episode: int, seat: int, objective: Objective, row_opponents: Sequence[str]
    ) -> float | None:
        """Return the return against this opponent of the best single policy against the pool, or None if unknown.

        In games of perfect information that policy depends on the order of moves, and only its mean over the pool is
        known. This mean is returned for each opponent if all opponents of the pool are in `row_opponents`.

        Args:
            episode: Episode, from 0.
            row_opponents: Names of the opponents in the row.
        """
        policy, response = self._policy(name, episode), self._response(seat, episode, objective)
        if policy is None or response is None:
            return None
        if not isinstance(response, TabularPolicy):
            return response if set(row_opponents) == set(self._pool) else None
        key = ("blind", policy, seat, objective)
        if key not in self._known:
            seated: tuple[Policy, ...] = (response, policy) if seat == 0 else (policy, response)
            self._known[key] = policy_value(self._game, seated, objective)[seat]
        return self._known[key]

    def _response(self, seat: int, episode: int, objective: Objective) -> TabularPolicy | float | None:
        """Return the best single policy in that episode, or its value if it cannot be tabulated, or None."""
        if all(self._policy(name, episode) is self._policy(name, 0) for name in self._pool):
            # No opponent changes between episodes, so one response serves all of them.
            episode = 0
        key = (seat, episode, objective)
        if key not in self._responses:
            try:
                best = best_nonadaptive(self._game, self._pool, seat, objective, episode)
            except (NotExact, UnknownOpponent, TypeError):
                self._responses[key] = None
            else:
                self._responses[key] = best.policy if isinstance(best.policy, TabularPolicy) else best.value
        return self._responses[key]


def optimal_learner(game: Game, pool: Mapping[str, float], trajectories: Sequence[Trajectory]) -> tuple[float, ...]:
    """Return the exact return per hand in each episode of the optimal learner.

    This learner knows the pool and maximises the sum of the episodes.

    Args:
        game: Game of the meta-episodes.
        trajectories: Finished meta-episodes with fresh deals. They determine the seats.

    Returns:
        One value per episode; empty if the exact values are unknown.
    """
    seats = [[seat for episode in t.episodes for seat in episode.seats] for t in trajectories]
    firsts = {seat_row[0] for seat_row in seats}
    # `bayes_value` needs a seating rule by name, and the trajectories contain only the seats themselves.
    rule = "alternate" if any(len(set(seat_row)) > 1 for seat_row in seats) else "fixed"
    if len(firsts) < game.spec.players:
        rule = {0: "first", 1: "second"}.get(min(firsts), "") if rule == "fixed" and len(firsts) == 1 else ""
    if not rule or game.spec.players != 2 or not is_enumerable(game):
        return ()
    hands = trajectories[0].episodes[0].hands
    try:
        solution = bayes_value(game, pool, episodes=len(trajectories[0].episodes), hands=hands, seat=rule, limit=STATES)
    except (NotExact, TooManyStates, UnknownOpponent, TypeError):
        return ()
    return tuple(value / hands for value in solution.per_episode)
