"""The learner that infers whom it meets, plans ahead, and believes that nobody learns or changes.

It updates its belief from point to point, that is, whenever it sees something. The belief can be refuted: nobody with a
positive probability would have done what is seen. To go on from another belief, the likelihoods must exist also for
opponents that would not have come to a point. They are limits: each opponent makes any move with a tiny probability,
which then goes to 0.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, cast

import numpy as np

from mage_envs.core import Game, Policy, Turn
from mage_envs.opponents.exact.bayes import BayesSolution, Meeting, check_lengths
from mage_envs.opponents.exact.learner_hands import Branch, Floats
from mage_envs.opponents.exact.modes import Memories, Modes
from mage_envs.opponents.exact.plans import LearnerHands
from mage_envs.opponents.exact.tree import NotExact, Rules
from mage_envs.opponents.learning.policy import LearningPolicy
from mage_envs.opponents.pools import OpponentPool, PoolSpec, as_pool
from mage_envs.tree import Node

Point = str | tuple[str, str]
"""Information state of a decision, or the last observation and information state of a finished hand."""


class _Place(NamedTuple):
    """The learner's memory between two hands."""

    number: int
    """Number of hands that are over."""
    memories: Memories
    """Memory of each opponent, as the learner believes in it."""
    origin: _Origin
    """Where its belief was last the prior."""
    state: int
    """State before the present hand, in the problem that began there."""


class _Origin(NamedTuple):
    """The beginning of a problem: the prior holds at a point of a hand."""

    number: int
    memories: Memories
    point: Point | None
    """None is the beginning of the hand."""


class StationaryPolicy(LearningPolicy):
    """The optimal policy for the sum of all episodes, if each opponent played every episode as it plays the first one.

    It updates its belief whenever it sees something. A belief can be refuted: an opponent that learns does what no one
    of the pool would do in a first episode. The belief then falls back to the prior, and what was just seen does not
    count.
    """

    def __init__(self, game: Game, pool: PoolSpec, episodes: int = 3, hands: int = 1, alternate: bool = True) -> None:
        """Initialize the policy; its problems are solved when they are needed.

        Args:
            pool: Opponents and their prior probabilities.
            episodes: Episodes of the meta-episode.
            hands: Hands per episode.
            alternate: True if the seat changes from hand to hand.

        Raises:
            NotExact: If an opponent has no exact probabilities.
            NotEnumerable: If the game has no enumerable tree.
            ValueError: If a length is invalid.
        """
        check_lengths(episodes, hands)
        self._game, self._pool = game, as_pool(pool)
        self._episodes, self._hands, self._alternate = episodes, hands, alternate
        # These raise now what solving would raise at the first turn.
        game.initial_states()
        memories = Modes(game, self._pool, stationary=True).start
        self.start = _Place(0, memories, _Origin(0, memories, None), 0)

    def distribution_given(self, turn: Turn, memory: Hashable) -> Mapping[str, float]:
        place = cast("_Place", memory)
        problems = self._problems(turn.player, place.number)
        origin, state = problems.follow(place, turn.information_state)
        return {problems.choose(place.number, origin, state, turn.information_state): 1.0}

    def step(self, memory: Hashable, turn: Turn) -> Hashable:
        place = cast("_Place", memory)
        problems = self._problems(turn.player, place.number)
        following = place.number + 1
        if following == self._episodes * self._hands:
            return self.start
        point = turn.observation, turn.information_state
        memories = problems.memories_after(place, point)
        origin, state = problems.follow(place, point)
        next_state = problems.learn(place.number, origin, state, point)
        if next_state is None:
            return _Place(following, memories, _Origin(following, memories, None), 0)
        return _Place(following, memories, origin, next_state)

    def on_hand_end(self, turn: Turn) -> None:
        super().on_hand_end(turn)
        self._last_seat = turn.player

    def report_belief(self) -> dict[str, float]:
        """Return the policy's probability of each opponent given the hands so far, if none of them changes."""
        place, belief = cast("_Place", self._present()), np.array(self._pool.weights)
        if place.number:
            problems = self._problems(self._last_seat, place.number - 1)
            belief = problems.modes.marginal(problems.belief(place))
        return dict(zip(map(str, self._pool.entries), belief.tolist(), strict=True))

    def _problems(self, seat: int, number: int) -> _Problems:
        """Return the problems of a meta-episode in which the learner has this seat in this hand."""
        seat0 = (seat - number) % 2 if self._alternate else seat
        rules = Rules(tuple(self._game.initial_states()), self._game)
        lengths = self._episodes, self._hands
        return _problems_of(rules, self._pool, lengths, alternate=self._alternate, seat0=seat0)


class _Problems:
    """The problems of a learner that believes in opponents who do not change, by where its belief is the prior."""

    def __init__(
        self, rules: Rules, pool: OpponentPool, lengths: tuple[int, int], *, alternate: bool, seat0: int
    ) -> None:
        self._game, self._pool, self._seat0 = rules.game, pool, seat0
        (self._episodes, self._hands), self._alternate = lengths, alternate
        self.modes = Modes(rules.game, pool, stationary=True)
        self._learner_hands = LearnerHands(rules.game, self.modes)
        self._solutions: dict[_Origin, BayesSolution] = {}
        self._points: dict[tuple[int, int, Memories], Mapping[Point, SeenPoint]] = {}
        """Points of a hand by seat, episode and memories."""
        self._branches: dict[int, dict[str, Branch]] = {}
        """Map from the id of a hand, which a solution keeps alive, to the branch of each information state."""

    def belief(self, place: _Place) -> Floats:
        """Return the probability of each mode before a hand, (N,)."""
        solution = self._solve(place.origin)
        return solution.meeting.stages[place.number - place.origin.number].belief(place.state)

    def follow(self, place: _Place, point: Point) -> tuple[_Origin, int]:
        """Return where the belief at a point of a hand began, and the state before the hand in that problem."""
        points = self._points_of(place.number, place.memories)
        way: list[Point] = []
        next_point: Point | None = point
        while next_point is not None:
            way.append(next_point)
            next_point = points[next_point].before
        origin, state, belief = place.origin, place.state, self.belief(place)
        for seen_point in reversed(way):
            belief = belief * points[seen_point].likelihood
            # A learner cannot use a belief that excludes everybody.
            if not belief.any():
                origin, state = _Origin(place.number, place.memories, seen_point), 0
                belief = np.array(self.modes.prior)
            belief = belief / belief.sum()
        return origin, state

    def choose(self, number: int, origin: _Origin, state: int, information_state: str) -> str:
        """Return the best action at a decision.

        Args:
            origin: Where the belief was the prior.
            state: State before the hand in that problem.
        """
        solution = self._solve(origin)
        hand = solution.meeting.stages[number - origin.number].group_of(state).hand
        if id(hand) not in self._branches:
            branches, remaining = dict[str, Branch](), [hand.root]
            while remaining:
                branch = remaining.pop()
                for key, options in branch.decisions.items():
                    branches[key] = branch
                    remaining += options.values()
            self._branches[id(hand)] = branches
        branch = self._branches[id(hand)][information_state]
        return solution.choose(number - origin.number, state, branch, information_state)

    def learn(self, number: int, origin: _Origin, state: int, point: Point) -> int | None:
        """Return the state after the end of a hand, or None if that end refuted the belief.

        The arguments are those of `choose`, besides the end of the hand.
        """
        if origin.number == number and origin.point == point:
            return None
        meeting = self._solve(origin).meeting
        seat, hand = self._seat(number), meeting.stages[number - origin.number].group_of(state).hand
        ending = next(
            index
            for index, node in enumerate(hand.ends)
            if (node.view(seat), node.state.information_state(seat)) == point
        )
        return meeting.learn(number - origin.number, state, int(hand.tells[ending]))

    def memories_after(self, place: _Place, point: Point) -> Memories:
        """Return the memory of each opponent after the end of a hand, also of those that are excluded."""
        _, node = self._points_of(place.number, place.memories)[point].roots[0]
        episode = place.number // self._hands
        seat = 1 - self._seat(place.number)
        memories = tuple(
            self.modes.step(mode, memory, node, seat, episode) for mode, memory in enumerate(place.memories)
        )
        return self.modes.restart(memories) if (place.number + 1) % self._hands == 0 else memories

    def _seat(self, number: int) -> int:
        return (self._seat0 + number) % 2 if self._alternate else self._seat0

    def _points_of(self, number: int, memories: Memories) -> Mapping[Point, SeenPoint]:
        # A stationary opponent plays every episode alike.
        key = self._seat(number), 0, memories
        if key not in self._points:
            self._points[key] = find_points(
                self._learner_hands.roots, cast("list[Policy]", self.modes.opponents(memories, 0)), self._seat(number)
            )
        return self._points[key]

    def _solve(self, origin: _Origin) -> BayesSolution:
        if origin not in self._solutions:
            first_hand = None
            if isinstance(origin.point, str):
                roots = self._points_of(origin.number, origin.memories)[origin.point].roots
                first_hand = self._learner_hands.hand_from(roots, self._seat(origin.number), 0, origin.memories)
            meeting = Meeting(
                self._game,
                self._pool,
                self._seat0,
                episodes=self._episodes,
                hands=self._hands,
                alternate=self._alternate,
                start=origin.number,
                memories=origin.memories,
                learner_hands=self._learner_hands,
                first_hand=first_hand,
            )
            self._solutions[origin] = BayesSolution(meeting, "sum")
        return self._solutions[origin]


@lru_cache(maxsize=16)
def _problems_of(rules: Rules, pool: OpponentPool, lengths: tuple[int, int], alternate: bool, seat0: int) -> _Problems:
    """Return the problems of a learner; all policies of a process with the same pool share them."""
    return _Problems(rules, pool, lengths, alternate=alternate, seat0=seat0)


class _Way(NamedTuple):
    """A position, with the reach of each opponent in the limit: `chance` times the tiny probability to the `order`."""

    node: Node
    chance: Floats
    """Leading coefficient, (N,)."""
    order: Floats
    """Number of moves that an opponent would not make, (N,)."""


class SeenPoint(NamedTuple):
    """A point of a hand."""

    before: Point | None
    """Point before it, or None at the first one."""
    likelihood: Floats
    """Probability of the point after the one before, by opponent, (N,)."""
    roots: Sequence[tuple[Floats, Node]]
    """Possible positions with their probabilities at this point by opponent, (N,)."""


def find_points(roots: Sequence[tuple[float, Node]], opponents: Sequence[Policy], seat: int) -> dict[Point, SeenPoint]:
    """Return all points of a hand.

    Args:
        roots: First positions with their probabilities.

    Raises:
        NotExact: If information states do not show the order of moves.
    """
    points: dict[Point, SeenPoint] = {}
    count = len(opponents)

    def visit(before: Point | None, total: _Way | None, ways: list[_Way]) -> None:
        members: dict[Point, list[_Way]] = {}
        while ways:
            way = ways.pop()
            node = way.node
            if node.player is None:
                members.setdefault((node.view(seat), node.state.information_state(seat)), []).append(way)
            elif node.player == seat:
                members.setdefault(node.information_state, []).append(way)
            else:
                rows = [opponent.distribution(node.turn()) for opponent in opponents]
                for action, child in node.children.items():
                    chances = np.array([row.get(action, 0.0) for row in rows])
                    is_tremble = chances == 0
                    ways.append(_Way(child, way.chance * np.where(is_tremble, 1.0, chances), way.order + is_tremble))
        for point, point_ways in members.items():
            order = np.min([way.order for way in point_ways], axis=0)
            shares = [np.where(way.order == order, way.chance, 0.0) for way in point_ways]
            chance = np.sum(shares, axis=0)
            likelihood = chance if total is None else np.where(order == total.order, chance / total.chance, 0.0)
            if total is None:
                likelihood = np.where(order == 0, likelihood, 0.0)
            positions = [(share / chance, way.node) for share, way in zip(shares, point_ways, strict=True)]
            if point in points:
                raise NotExact("The learner 'stationary' requires information states that show the order of all moves.")
            points[point] = SeenPoint(before, likelihood, positions)
            if isinstance(point, str):
                here = _Way(point_ways[0].node, chance, order)
                for action in point_ways[0].node.children:
                    visit(point, here, [way._replace(node=way.node.children[action]) for way in point_ways])

    visit(None, None, [_Way(node, np.full(count, chance), np.zeros(count)) for chance, node in roots])
    return points
