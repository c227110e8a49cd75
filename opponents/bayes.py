"""The solved learners as policies: they take a seat like any other, and all but the blind one adapt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

import numpy as np

from mage_envs.core import ExactPolicy, Game, State, Turn, is_state_policy
from mage_envs.env import SEATINGS
from mage_envs.registry import list_games, settings_of
from opponents.exact.bayes import GT, BayesSolution, Credit, Meeting, check_lengths, credit_weights
from opponents.exact.best_response import best_nonadaptive
from opponents.exact.hands import Branch
from opponents.exact.tree import exact_policy
from opponents.pools import OpponentPool, PoolSpec, as_pool


class BayesPolicy:
    """Plays best against one opponent drawn from `pool`, for some credit; see `opponents.exact.bayes`.

    It counts the hands of the meta-episode by the results that it is shown. It starts anew, as if the next hand were
    the first: after as many hands as were planned, after evidence that no opponent of the pool can give, and in a seat
    that it did not expect.
    """

    def __init__(
        self,
        game: Game,
        pool: PoolSpec,
        episodes: int = 3,
        hands: int = 1,
        credit: Credit = "last",
        gt: float = GT,
        alternate: bool = True,
    ) -> None:
        """Seats alternate from hand to hand, or stay. Raises `NotExact`, `NotEnumerable` and ValueError at once."""
        check_lengths(episodes, hands)
        credit_weights(credit, episodes, gt)
        self._game = game
        self._problem = _Problem(
            pool=as_pool(pool),
            episodes=episodes,
            hands=hands,
            credit=cast("Credit", credit if isinstance(credit, str) else tuple(credit)),
            gt=gt,
            alternate=alternate,
        )
        game.initial_states()
        for entry in self._problem.pool.entries:
            exact_policy(entry, game)
        self.begin_meta_episode()

    def begin_meta_episode(self) -> None:
        """Forgets everything."""
        self._hand = self._state = 0
        self._seat0: int | None = None
        """The seat of the first hand, once it is known."""
        self._solution: BayesSolution | None = None
        self._said: list[tuple[str, str]] = []

    def reset(self, rng: np.random.Generator) -> None:
        """Starts a hand; nothing is drawn."""
        self._said = []

    def act(self, turn: Turn) -> str:
        solution = self._solved(turn)
        action = solution.choose(self._hand, self._state, self._branch(solution), turn.information_state)
        self._said.append((turn.information_state, action))
        return action

    def see_result(self, turn: Turn) -> None:
        """Updates the belief by all that was seen of the hand."""
        solution = self._solved(turn)
        outcome = self._branch(solution).outcomes.get(turn.observation)
        last = self._hand + 1 == len(solution.meeting.hands)
        state = None
        if not last and outcome is not None:
            evidence = int(solution.meeting.hands[self._hand].tells[outcome])
            state = solution.meeting.learn(self._hand, self._state, evidence)
        if state is None:
            self.begin_meta_episode()
            return
        self._hand, self._state, self._said = self._hand + 1, state, []

    def _solved(self, turn: Turn) -> BayesSolution:
        if self._seat0 is None:
            self._seat0 = turn.player
        if self._solution is None:
            rules = _Rules(tuple(self._game.initial_states()), self._game)
            self._solution = _solve(rules, self._seat0, self._problem)
        if self._solution.meeting.seats[self._hand] != turn.player:
            self.begin_meta_episode()
            return self._solved(turn)
        return self._solution

    def _branch(self, solution: BayesSolution) -> Branch:
        branch = solution.meeting.hands[self._hand].root
        for state, action in self._said:
            branch = branch.decisions[state][action]
        return branch

    def __getstate__(self) -> dict[str, Any]:
        """All but the solution, which is large and found again."""
        return {**self.__dict__, "_solution": None}


@dataclass(frozen=True, kw_only=True)
class _Problem:
    pool: OpponentPool
    episodes: int
    hands: int
    credit: Credit
    gt: float
    alternate: bool


@dataclass(frozen=True)
class _Rules:
    """A game, equal to another with the very same first states."""

    states: tuple[tuple[float, State], ...]
    game: Game = field(compare=False)


@lru_cache(maxsize=8)
def _solve(rules: _Rules, seat0: int, problem: _Problem) -> BayesSolution:
    """Solved once for all policies of a process that play the same problem."""
    meeting = Meeting(
        rules.game,
        problem.pool,
        seat0,
        episodes=problem.episodes,
        hands=problem.hands,
        alternate=problem.alternate,
    )
    return BayesSolution(meeting, problem.credit, problem.gt)


class BlindPolicy:
    """Plays best against an opponent drawn from `pool` in each hand by itself, remembering nothing of earlier ones."""

    def __init__(self, game: Game, pool: PoolSpec) -> None:
        self._game, self._pool = game, as_pool(pool)
        self._policies: dict[tuple[int, int], ExactPolicy] = {}
        """By seat and episode; by episode 0 if no opponent changes."""
        game.initial_states()
        self._changes = not all(is_state_policy(exact_policy(entry, game)) for entry in self._pool.entries)

    def reset(self, rng: np.random.Generator) -> None:
        """Nothing is drawn."""

    def act(self, turn: Turn) -> str:
        return self._policy(turn).act(turn)

    def distribution(self, turn: Turn) -> Mapping[str, float]:
        """Probability 1 for the one action."""
        return self._policy(turn).distribution(turn)

    def _policy(self, turn: Turn) -> ExactPolicy:
        key = seat, episode = turn.player, turn.episode if self._changes else 0
        if key not in self._policies:
            self._policies[key] = best_nonadaptive(self._game, self._pool, seat, episode=episode).policy
        return self._policies[key]


def bayes(
    game: Game, pool: str, episodes: int = 3, hands: int = 1, credit: str = "last", seat: str = ""
) -> BayesPolicy:
    """`bayes:kuhn/demo,3,3` makes the last of 3 episodes of 3 hands worth most against an opponent from that pool;
    `bayes:kuhn/demo,3,3,sum` all of them together, `…,mage` as differential credit counts them.

    `seat`: `alternate`, or `fixed` where the seat stays as it is in the first hand; by default as the game has it.
    """
    name = game.facts.name
    rule = seat or (settings_of(name).seat if name in list_games() else None) or "alternate"
    if seat and seat not in SEATINGS:
        raise ValueError(f"seat={seat!r} is unknown; choose {', '.join(SEATINGS)}.")
    return BayesPolicy(
        game=game,
        pool=f"pool:{pool}",
        episodes=episodes,
        hands=hands,
        credit=cast("Credit", credit),
        alternate=rule == "alternate",
    )


def myopic(game: Game, pool: str, episodes: int = 3, hands: int = 1, seat: str = "") -> BayesPolicy:
    """`myopic:kuhn/demo,3,3` makes each episode worth most by itself, given all that was seen."""
    return bayes(game, pool, episodes, hands, "myopic", seat)


def blind(game: Game, pool: str) -> BlindPolicy:
    """`blind:kuhn/demo` plays best without remembering anything."""
    return BlindPolicy(game, f"pool:{pool}")
