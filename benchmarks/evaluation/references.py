"""The exact values that scores stand beside: what a best response earns, and the best policy without information."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mage_envs.core import ExactPolicy, Game, is_state_policy
from opponents import TabularPolicy, UnknownOpponent, make_opponent
from opponents.exact import NotExact, Objective, bayes_value, best_nonadaptive, ceiling, policy_value
from opponents.exact.hands import TooManyStates
from opponents.exact.tree import in_episode, is_enumerable, is_exact
from trainer.trajectory import Trajectory

STATES = 100_000
"""Of belief; where there are more, no optimal learner is told of (`mage-bench headroom` goes further)."""


class ExactValues:
    """Exact values of one game, each computed once; None where the game or an opponent has none."""

    def __init__(self, game: Game, pool: Mapping[str, float]) -> None:
        self._game = game
        self._pool = pool
        self._policies: dict[tuple[str, int], ExactPolicy | None] = {}
        self._known: dict[tuple[object, ...], float | None] = {}
        self._responses: dict[tuple[int, int, Objective], TabularPolicy | float | None] = {}

    def _policy(self, name: str, episode: int) -> ExactPolicy | None:
        """The opponent in that episode. One that reads nothing but the information state is the same in all."""
        if (name, episode) not in self._policies:
            made: object = None
            if self._game.facts.players == 2 and is_enumerable(self._game):
                try:
                    made = make_opponent(name, self._game)
                except UnknownOpponent:
                    made = None  # an instance without a name
            found = made if is_exact(made) else None
            if found is not None:
                first = self._policy(name, 0) if episode > 0 else None
                found = first if is_state_policy(first) else in_episode(found, episode)
            self._policies[name, episode] = found
        return self._policies[name, episode]

    def ceiling(self, name: str, episode: int, seat: int, objective: Objective) -> float | None:
        """The best response value against the opponent as it plays in that episode."""
        policy = self._policy(name, episode)
        key = ("ceiling", policy, seat, objective)
        if key not in self._known:
            self._known[key] = None if policy is None else ceiling(self._game, policy, seat, objective)
        return self._known[key]

    def uninformed(self, name: str, episode: int, seat: int, objective: Objective, met: Sequence[str]) -> float | None:
        """What the best single policy against the pool earns from this opponent.

        In games of perfect information that policy reads the order of moves, and only its mean over the pool is known;
        it stands for each opponent where all of the pool are `met`.
        """
        policy, response = self._policy(name, episode), self._response(seat, episode, objective)
        if policy is None or response is None:
            return None
        if not isinstance(response, TabularPolicy):
            return response if set(met) == set(self._pool) else None
        key = ("uninformed", policy, seat, objective)
        if key not in self._known:
            seated: tuple[ExactPolicy, ...] = (response, policy) if seat == 0 else (policy, response)
            self._known[key] = policy_value(self._game, seated, objective)[seat]
        return self._known[key]

    def _response(self, seat: int, episode: int, objective: Objective) -> TabularPolicy | float | None:
        """The best single policy in that episode, or its value where it is no table."""
        if all(self._policy(name, episode) is self._policy(name, 0) for name in self._pool):
            episode = 0  # one policy for all episodes
        key = (seat, episode, objective)
        if key not in self._responses:
            try:
                best = best_nonadaptive(self._game, self._pool, seat, objective, episode)
            except (NotExact, UnknownOpponent, TypeError):
                self._responses[key] = None
            else:
                self._responses[key] = best.policy if isinstance(best.policy, TabularPolicy) else best.value
        return self._responses[key]


def optimal_learner(game: Game, pool: Mapping[str, float], played: Sequence[Trajectory]) -> tuple[float, ...]:
    """What the learner earns per hand in each episode that knows the pool and maximises their sum, seated as in what
    was `played`, which is whole and of fresh deals; empty where that is not known exactly."""
    seats = [[seat for episode in t.episodes for seat in episode.seats] for t in played]
    firsts = {one[0] for one in seats}
    rule = "alternate" if any(len(set(one)) > 1 for one in seats) else "fixed"
    if len(firsts) < game.facts.players:
        rule = {0: "first", 1: "second"}.get(min(firsts), "") if rule == "fixed" and len(firsts) == 1 else ""
    if not rule or game.facts.players != 2 or not is_enumerable(game):
        return ()
    hands = played[0].episodes[0].hands
    try:
        known = bayes_value(game, pool, episodes=len(played[0].episodes), hands=hands, seat=rule, limit=STATES)
    except (NotExact, TooManyStates, UnknownOpponent, TypeError):
        return ()
    return tuple(value / hands for value in known.per_episode)
