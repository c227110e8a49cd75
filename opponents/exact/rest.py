"""A hand that was played, and the value of the rest of a meta-episode from any of its hands on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mage_envs.core import Game, NotEnumerable
from mage_envs.games.table_game import TableSeries
from mage_envs.opponents.exact.bayes import (
    GT,
    BayesSolution,
    CreditName,
    Meeting,
    build_hands,
    check_lengths,
    credit_weights,
)
from mage_envs.opponents.exact.beliefs import STATES
from mage_envs.opponents.exact.learner_hands import Floats, LearnerHand
from mage_envs.opponents.exact.modes import Memories
from mage_envs.opponents.exact.plans import HandPlan
from mage_envs.opponents.exact.series import without_repetition
from mage_envs.opponents.pools import PoolSpec, as_pool

_SOLUTIONS = 64
"""Maximum number of solutions that are kept for each seat of the first hand."""


class OwnChoice(NamedTuple):
    """One decision of the player in a hand."""

    information_state: str
    """Information state of the decision."""
    action: str
    """Action that was played."""
    probabilities: Mapping[str, float] | None = None
    """Player's probabilities of the actions if they are known; None counts as probability 1 for `action`."""


class PlayedHand(NamedTuple):
    """A hand from the player's view."""

    seat: int
    """Player's seat."""
    choices: Sequence[OwnChoice]
    """Player's decisions in order."""
    value: float
    """Return of the hand."""
    ending: str | None = None
    """Player's last view of the hand, or None if it is not known. Without it, the belief ignores the ending."""
    by_rules: bool = True
    """True if the rules ended the hand; False after a time limit or an illegal answer."""
    episode: int = 0
    """Index of the hand's episode, because opponents may change between episodes."""
    position: int = 0
    """Index of the hand among all planned hands of the meta-episode."""
    skipped: int = 0
    """Number of planned hands after it that were not played because its episode ended early; `value` includes them."""


class OpenHand(NamedTuple):
    """A hand under a belief, with the value of each branch."""

    hand: LearnerHand
    plan: HandPlan
    worth: Floats
    """Value of each branch with optimal play of the rest, times the branch's probability, (B,)."""


class Rest:
    """The value of the rest of a meta-episode, if the optimal learner for a credit continues it."""

    def __init__(
        self,
        game: Game,
        pool: PoolSpec,
        *,
        episodes: int,
        hands: int = 1,
        credit: CreditName | Sequence[float] = "sum",
        gt: float = GT,
        alternate: bool = True,
        limit: int = STATES,
    ) -> None:
        """Prepare the values; problems are solved on first use.

        Args:
            game: Game with an enumerable tree.
            pool: Opponents and their prior probabilities.
            hands: Hands per episode.
            credit: Objective of the learner, a name or one weight per episode.
            gt: Discount across episodes of the credit `mage`.
            alternate: True if the seat changes from hand to hand.
            limit: Maximum number of states of belief. `TooManyStates` beyond it comes on first use.

        Raises:
            ValueError: If a setting is invalid, or the credit is `myopic`, whose weights depend on the decision.
            NotExact: If an opponent has no `distribution`.
            NotEnumerable: If the game has no enumerable tree, or is a series that is not from a table.
            TooManyStates: If the tasks of a series have too many orders.
        """
        check_lengths(episodes, hands)
        if credit == "myopic":
            raise ValueError("Single-episode credit has no rest of the meta-episode. Use horizon='hand'.")
        # For every credit that is accepted here, all rows of the objective are equal, so the first one is enough.
        self.weights = credit_weights(credit, episodes, gt)[0, 0]
        """Weight of each episode's return, (K,)."""
        self.label: str = "own weights"
        """Name of the credit for tables."""
        if credit == "mage":
            self.label = f"mage, gt {gt:g}"
        elif isinstance(credit, str):
            self.label = credit
        self.game, self.pool = game, as_pool(pool)
        """Game and pool of the values. In a series, an opponent is a pair of a policy and an order of the tasks."""
        opponents = len(self.pool)
        if game.spec.series:
            # A task of a series depends on those before, so the posterior also covers their order.
            if not isinstance(game, TableSeries):
                raise NotEnumerable(
                    f"{game.spec.name} is not a series of tasks from a table, so it has no exact regret."
                )
            self.game, self.pool = without_repetition(game, self.pool, episodes, hands)
        self.orders = len(self.pool) // opponents
        """Number of orders of the tasks that the posterior distinguishes; 1 if the game is not a series."""
        self._credit, self._gt = credit, gt
        self._episodes, self._hands, self._alternate, self._limit = episodes, hands, alternate, limit
        self.learner_hands = build_hands(self.game, self.pool)
        self._solutions: dict[int, list[tuple[int, BayesSolution]]] = {}
        """Map from the seat of the first hand to solutions, each with the index of its first hand."""

    def open(self, seat: int, position: int, belief: Floats, memories: Memories) -> OpenHand:
        """Return a hand with the value of each branch and all later hands.

        Args:
            seat: Player's seat in the hand.
            position: Index of the hand among all planned hands.
            belief: Probability of each mode before the hand, (N,).
            memories: Memory of each mode before the hand.
        """
        solution, hand, state = self._find_solution(seat, position, belief, memories)
        group = solution.meeting.stages[hand].group_of(state)
        return OpenHand(group.hand, group.plan, solution.worth(hand, state))

    def weight(self, position: int) -> float:
        """Return the weight of a hand's return."""
        return float(self.weights[position // self._hands])

    def value_after(self, hand: PlayedHand, belief: Floats, memories: Memories) -> float:
        """Return the value of the hands that are played after a hand.

        Args:
            belief: Probability of each mode after it, (N,).
            memories: Memory of each mode after it.
        """
        following = hand.position + 1 + hand.skipped
        if following >= self._episodes * self._hands:
            return 0.0
        seat = (hand.seat + following - hand.position) % self.game.spec.players if self._alternate else hand.seat
        belief = self.learner_hands.modes.after_episode(belief, following // self._hands - hand.episode)
        # The last branch is the root: the value of the whole next hand and everything after it.
        return float(self.open(seat, following, belief, memories).worth[-1])

    def _find_solution(
        self, seat: int, position: int, belief: Floats, memories: Memories
    ) -> tuple[BayesSolution, int, int]:
        """Return a solution with the hand's index and the state's index in it."""
        # Solutions are kept by the seat of hand 0, which follows from the seat of this hand if seats alternate.
        seat0 = (seat - position) % self.game.spec.players if self._alternate else seat
        solutions = self._solutions.setdefault(seat0, [])
        for start, solution in solutions:
            if start <= position:
                key = self.learner_hands.modes.mask(memories, belief)
                found_state = solution.meeting.stages[position - start].find(key, belief)
                if found_state is not None:
                    return solution, position - start, found_state
        # This is the first call for the seat, or the belief is new: only complete hands lead to the states of a
        # solution, and the evidence of a hand without an ending is partial. Solve the rest from this belief.
        meeting = Meeting(
            self.game,
            self.pool,
            seat0,
            episodes=self._episodes,
            hands=self._hands,
            alternate=self._alternate,
            limit=self._limit,
            learner_hands=self.learner_hands,
            start=position,
            prior=belief.tolist(),
            memories=memories,
        )
        solutions.append((position, BayesSolution(meeting, self._credit, self._gt)))
        # Each belief that a player states is a problem of its own. The first solution, from the prior, is used most.
        if len(solutions) > _SOLUTIONS:
            del solutions[1]
        return solutions[-1][1], 0, 0
