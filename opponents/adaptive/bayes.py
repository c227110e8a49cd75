"""Solved learners as policies for any seat. All of them adapt within a meta-episode, except the blind one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import numpy as np

from mage_envs.core import Game, Policy, Turn, is_state_policy
from mage_envs.env import SEATINGS
from mage_envs.opponents.adaptive.plan import PlanPolicy
from mage_envs.opponents.exact.bayes import BayesSolution, Credit, Meeting, check_lengths, credit_weights
from mage_envs.opponents.exact.best_response import best_nonadaptive
from mage_envs.opponents.exact.learner_hands import Branch
from mage_envs.opponents.exact.modes import Modes
from mage_envs.opponents.exact.stationary import StationaryPolicy
from mage_envs.opponents.exact.tree import RemembersHands, Rules, exact_policy
from mage_envs.opponents.pools import OpponentPool, PoolSpec, as_pool
from mage_envs.registry import list_games, settings_of


class BayesPolicy(Policy):
    """The optimal policy against one opponent drawn from `pool`, for some credit (`mage_envs.opponents.exact.bayes`).

    It counts the hands of the meta-episode by calls of `on_hand_end`. It starts again from the first hand in three
    cases: after the planned number of hands, after evidence that no opponent of the pool can produce, and in a seat
    that it did not expect. At a decision to which no opponent of the pool leads, it plays the first action.
    """

    def __init__(
        self,
        game: Game,
        pool: PoolSpec,
        episodes: int = 3,
        hands: int = 1,
        credit: Credit = "sum",
        alternate: bool = True,
    ) -> None:
        """Initialize the policy; the problem is solved at the first turn.

        Args:
            game: Game that is played.
            pool: Opponents and their prior probabilities.
            episodes: Episodes of the meta-episode.
            hands: Hands per episode.
            credit: Quantity that the policy maximises; see `mage_envs.opponents.exact.bayes`.
            alternate: True if the seat changes from hand to hand.

        Raises:
            NotExact: If an opponent has no exact probabilities.
            NotEnumerable: If the game has no enumerable tree.
            ValueError: If a length or the credit is invalid.
        """
        check_lengths(episodes, hands)
        credit_weights(credit, episodes)
        self._game = game
        self._problem = _Problem(
            pool=as_pool(pool),
            episodes=episodes,
            hands=hands,
            credit=cast("Credit", credit if isinstance(credit, str) else tuple(credit)),
            alternate=alternate,
        )
        # These two raise now what solving would raise at the first turn.
        game.initial_states()
        Modes(game, self._problem.pool)
        self.on_meta_episode_start()

    def on_meta_episode_start(self) -> None:
        """Forget the hands so far and the solution."""
        self._hand = self._state = 0
        self._seat0: int | None = None
        """Seat of the first hand, or None before its first turn."""
        self._solution: BayesSolution | None = None
        self._own_choices: list[tuple[str, str]] = []

    def reset(self, rng: np.random.Generator) -> None:
        """Start a hand; the policy draws no random numbers."""
        self._own_choices = []

    def act(self, turn: Turn) -> str:
        solution = self._ensure_solution(turn)
        branch = self._branch(solution)
        if branch is None or turn.information_state not in branch.decisions:
            action = turn.legal_actions[0]
        else:
            action = solution.choose(self._hand, self._state, branch, turn.information_state)
        self._own_choices.append((turn.information_state, action))
        return action

    def on_hand_end(self, turn: Turn) -> None:
        """Update the belief by the policy's view of the whole hand."""
        solution = self._ensure_solution(turn)
        branch = self._branch(solution)
        outcome = None if branch is None else branch.outcomes.get(turn.observation)
        is_last = self._hand + 1 == len(solution.meeting.stages)
        state = None
        if not is_last and outcome is not None:
            evidence = int(solution.meeting.stages[self._hand].group_of(self._state).hand.tells[outcome])
            state = solution.meeting.learn(self._hand, self._state, evidence)
        if state is None:
            self.on_meta_episode_start()
            return
        self._hand, self._state, self._own_choices = self._hand + 1, state, []

    def report_belief(self) -> dict[str, float]:
        """Return the posterior probability of each opponent given the hands so far."""
        pool = self._problem.pool
        belief = np.array(pool.weights)
        if self._solution is not None:
            meeting = self._solution.meeting
            belief = meeting.modes.marginal(meeting.stages[self._hand].belief(self._state))
        # In a series of tasks, each opponent has several entries: one for each order of the tasks.
        return dict(zip(map(str, pool.entries), belief.reshape(len(pool), -1).sum(axis=1).tolist(), strict=True))

    def _ensure_solution(self, turn: Turn) -> BayesSolution:
        if self._seat0 is None:
            self._seat0 = turn.player
        if self._solution is None:
            rules = Rules(tuple(self._game.initial_states()), self._game)
            self._solution = _solve(rules, self._seat0, self._problem)
        # In an unexpected seat the plan is void. After the reset, the seat of this turn is that of the first hand.
        if self._solution.meeting.seats[self._hand] != turn.player:
            self.on_meta_episode_start()
            return self._ensure_solution(turn)
        return self._solution

    def _branch(self, solution: BayesSolution) -> Branch | None:
        """Return the branch after the own choices of this hand, or None if no opponent of the pool leads to it."""
        branch: Branch | None = solution.meeting.stages[self._hand].group_of(self._state).hand.root
        for state, action in self._own_choices:
            branch = None if branch is None else branch.decisions.get(state, {}).get(action)
        return branch

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the solution, which is large and is computed again when needed."""
        return {**self.__dict__, "_solution": None}


@dataclass(frozen=True, kw_only=True)
class _Problem:
    """A problem's parameters, as a key of the cache of solutions."""

    pool: OpponentPool
    episodes: int
    hands: int
    credit: Credit
    alternate: bool


@lru_cache(maxsize=8)
def _solve(rules: Rules, seat0: int, problem: _Problem) -> BayesSolution:
    """Return the solution of a problem; all policies of a process with the same problem share it."""
    meeting = Meeting(
        rules.game,
        problem.pool,
        seat0,
        episodes=problem.episodes,
        hands=problem.hands,
        alternate=problem.alternate,
    )
    return BayesSolution(meeting, problem.credit)


@lru_cache(maxsize=64)
def _blind(rules: Rules, pool: OpponentPool, seat: int, episode: int) -> Policy:
    """Return the best policy without memory in an episode; all policies of a process share it."""
    return best_nonadaptive(rules.game, pool, seat, episode=episode).policy


class BlindPolicy(Policy):
    """The optimal policy against an opponent drawn from `pool`, for one hand without memory of earlier hands."""

    def __init__(self, game: Game, pool: PoolSpec) -> None:
        self._game, self._pool = game, as_pool(pool)
        self._policies: dict[tuple[int, int], Policy] = {}
        """Policies by (seat, episode); the episode is 0 if no opponent changes between episodes."""
        # Raises NotEnumerable now instead of at the first turn.
        game.initial_states()
        policies = [exact_policy(entry, game) for entry in self._pool.entries]
        self._changes = not all(map(is_state_policy, policies))

    def reset(self, rng: np.random.Generator) -> None:
        """Start a hand; the policy draws no random numbers."""

    def act(self, turn: Turn) -> str:
        return self._policy(turn).act(turn)

    def distribution(self, turn: Turn) -> Mapping[str, float]:
        """Return probability 1 for the one action."""
        return self._policy(turn).distribution(turn)

    def report_belief(self) -> dict[str, float]:
        """Return the prior probability of each opponent, because the policy remembers nothing."""
        return dict(zip(map(str, self._pool.entries), self._pool.weights, strict=True))

    def _policy(self, turn: Turn) -> Policy:
        key = seat, episode = turn.player, turn.episode if self._changes else 0
        if key not in self._policies:
            rules = Rules(tuple(self._game.initial_states()), self._game)
            self._policies[key] = _blind(rules, self._pool, seat, episode)
        return self._policies[key]


def bayes(game: Game, pool: str, episodes: int = 3, hands: int = 1, credit: str = "sum", seat: str = "") -> BayesPolicy:
    """Return the optimal learner for a registered pool.

    `bayes:kuhn/demo,3,3` maximises the sum over 3 episodes of 3 hands. `bayes:kuhn/demo,3,3,last` maximises the last
    episode, `bayes:kuhn/demo,3,3,mage` the differential credit of all.

    Args:
        game: Game that is played.
        pool: Name of a registered pool.
        episodes: Episodes of the meta-episode.
        hands: Hands per episode.
        credit: Quantity that the policy maximises; see `mage_envs.opponents.exact.bayes`.
        seat: `alternate`, or `fixed` if the seat never changes (default: the game's own rule).

    Raises:
        ValueError: If a length, the credit or the seat rule is invalid.
    """
    return BayesPolicy(
        game=game,
        pool=f"pool:{pool}",
        episodes=episodes,
        hands=hands,
        credit=cast("Credit", credit),
        alternate=alternates(game, seat),
    )


def alternates(game: Game, seat: str = "") -> bool:
    """Return True if the learner's seat changes from hand to hand, by a seat rule or else by the game's own."""
    name = game.spec.name
    # A game that is not registered has no rule of its own; environments alternate seats by default.
    rule = seat or (settings_of(name).seat if name in list_games() else None) or "alternate"
    if seat and seat not in SEATINGS:
        raise ValueError(f"seat={seat!r} is unknown; choose {', '.join(SEATINGS)}.")
    return rule == "alternate"


def myopic(game: Game, pool: str, episodes: int = 3, hands: int = 1, seat: str = "") -> BayesPolicy:
    """Return the learner that maximises each episode by itself, given all earlier hands: `myopic:kuhn/demo,3,3`.

    Args:
        game: Game that is played.
        pool: Name of a registered pool.
        episodes: Episodes of the meta-episode.
        hands: Hands per episode.
        seat: `alternate`, or `fixed` if the seat never changes (default: the game's own rule).
    """
    return bayes(game, pool, episodes, hands, "myopic", seat)


def blind(game: Game, pool: str, episodes: int = 3, seat: str = "") -> BlindPolicy | PlanPolicy:
    """Return the best policy without memory of earlier hands: `blind:kuhn/demo`.

    Args:
        game: Game that is played.
        pool: Name of a registered pool.
        episodes: Episodes of the meta-episode. They matter only if opponents learn.
        seat: `alternate`, or `fixed` if the seat never changes (default: the game's own rule).
    """
    try:
        return BlindPolicy(game, f"pool:{pool}")
    except RemembersHands:
        # Opponents that learn remember what the policy did in earlier episodes, so it plans for all of them.
        return PlanPolicy(game, f"pool:{pool}", episodes, alternates(game, seat))


def build_stationary(game: Game, pool: str, episodes: int = 3, hands: int = 1, seat: str = "") -> StationaryPolicy:
    """Return the optimal learner that believes that nobody changes: `stationary:pennies/learners,3`.

    Args:
        game: Game that is played.
        pool: Name of a registered pool.
        episodes: Episodes of the meta-episode.
        hands: Hands per episode.
        seat: `alternate`, or `fixed` if the seat never changes (default: the game's own rule).
    """
    return StationaryPolicy(game, f"pool:{pool}", episodes, hands, alternate=alternates(game, seat))
