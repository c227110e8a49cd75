"""A hand of the learner as arrays: what every branch pays by itself, and the decisions that lead to others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from mage_envs.core import ExactPolicy, Game, is_state_policy
from opponents.exact.hands import Branch, Floats, LivedHand, Places, hand_of
from opponents.exact.tree import Objective, in_episode, payoff_of, positions, roots_of, uncollected

CELLS = 2**25
"""Most values of a table over the branches of a hand and the states that are worked on at a time (256 MB)."""


class Decisions(NamedTuple):
    """Decisions with A actions each; those of one branch are neighbours."""

    options: Places
    """(D, A): the branch that follows each action."""
    starts: Places
    """(F,): where the decisions of a branch begin, ..."""
    branches: Places
    """(F,): ... and which branch it is."""


Best = Callable[[Floats], Places]
"""(K, D, A, S), what each action earns in each episode, to (D, S), the action that is taken."""


class DecisionTree:
    """Branches that pay something by themselves and what the best options of their decisions pay. The root is last."""

    def __init__(self, payoff: Floats, decisions: Sequence[Decisions]) -> None:
        self.payoff = payoff
        """(B, N): what a branch pays by itself, times its probability."""
        self.decisions = decisions
        """The options of each were complete before: their decisions are in those that stand earlier."""

    @classmethod
    def of(cls, payoff: Floats, options: Sequence[Sequence[Sequence[int]]]) -> DecisionTree:
        """`options`: for each branch, for each of its decisions, the branch after each action, of a smaller number."""
        groups: dict[tuple[int, int], list[tuple[int, Sequence[int]]]] = defaultdict(list)
        heights: list[int] = []
        for branch, mine in enumerate(options):
            heights.append(1 + max((heights[after] for one in mine for after in one), default=-1))
            for one in mine:
                groups[heights[branch], len(one)].append((branch, one))
        decisions = []
        for _, group in sorted(groups.items()):
            branches, starts = np.unique([branch for branch, _ in group], return_index=True)
            decisions.append(Decisions(np.array([one for _, one in group], np.intp), starts, branches))
        return cls(payoff, decisions)

    def worth(self, beliefs: Floats) -> Floats:
        """(B, S): what each branch is worth if all is decided as best, times its probability; `beliefs` are (N, S)."""
        worth: Floats = self.payoff @ beliefs
        self.decide(worth[None], lambda each: each[0].argmax(axis=1))  # a view: in its place
        return worth

    def decide(self, earned: Floats, best: Best) -> None:
        """Adds to (K, B, S), what each branch earns by itself in each episode, what is earned by `best` decisions."""
        for options, starts, branches in self.decisions:
            each = earned[:, options]
            taken = np.take_along_axis(each, best(each)[None, :, None], axis=2)[:, :, 0]
            earned[:, branches] += np.add.reduceat(taken, starts, axis=1)


class HandPlan:
    """A hand with its branches numbered, each after those that follow it; the hand's own is the last."""

    def __init__(self, hand: LivedHand) -> None:
        self.evidence = hand.evidence
        """(E, N)"""
        self.number: dict[int, int] = {}
        """By the id of a branch."""
        options: list[list[list[int]]] = []
        branch_of = np.zeros(len(hand.tells), np.intp)

        def visit(branch: Branch) -> int:
            mine = [[visit(after) for after in actions.values()] for actions in branch.decisions.values()]
            options.append(mine)
            number = self.number[id(branch)] = len(options) - 1
            branch_of[list(branch.outcomes.values())] = number
            return number

        visit(hand.root)
        payoff = np.zeros((len(options), hand.evidence.shape[1]))
        np.add.at(payoff, branch_of, hand.payoff)
        self.tree = DecisionTree.of(payoff, options)
        pairs, same = np.unique(branch_of * len(hand.evidence) + hand.tells, return_inverse=True)
        self.ends, self.tells = np.divmod(pairs, len(hand.evidence))
        """(M,) each: branches that end the hand, and the pieces of evidence that they end it with, ..."""
        self.weight = np.bincount(same.reshape(-1), hand.weight)
        """(M,): ... at this weight."""

    @property
    def cells(self) -> int:
        """The numbers that it takes to work on one belief in one episode."""
        return max(len(self.tree.payoff), len(self.evidence), len(self.ends))

    def teach(self, earned: Floats, following: Floats) -> None:
        """Adds to (B, S), what each branch earns, what it leads to by what is learned of it: `following`, (E, S), is
        what each piece of evidence leads to, times its probability."""
        branches, starts = np.unique(self.ends, return_index=True)
        parts = following[self.tells]
        parts *= self.weight[:, None]
        earned[branches] += np.add.reduceat(parts, starts)

    def reached(self) -> Floats:
        """(B, N): the probability of each branch by opponent, the learner's own moves counting 1."""
        found = np.zeros_like(self.tree.payoff)
        np.add.at(found, self.ends, self.weight[:, None] * self.evidence[self.tells])
        for options, starts, branches in self.tree.decisions:
            found[branches] += np.add.reduceat(found[options[:, 0]], starts)
        return found


class LivedHands:
    """The hands of a game against several opponents, each made when it is first asked for."""

    def __init__(self, game: Game, opponents: Sequence[ExactPolicy], objective: Objective = "returns") -> None:
        """Raises `NotEnumerable` for a game without a tree."""
        self._roots, self._payoff, self._opponents = roots_of(game), payoff_of(objective), opponents
        self._made: dict[tuple[int, int], tuple[LivedHand, HandPlan]] = {}
        """By the seat, and the first episode in which all opponents play in this way."""
        self._changing = [opponent for opponent in opponents if not is_state_policy(opponent)]
        """Opponents that may play otherwise in another episode."""
        self._play: dict[int, list[Mapping[str, float]]] = {}
        """By episode, what the changing opponents do at every position."""

    def seated(self, seat: int, episode: int = 0) -> tuple[LivedHand, HandPlan]:
        """That of the learner in `seat` in that episode; raises `TooManyStates` where it has too many decisions."""
        key = seat, self._first_like(episode)
        if key not in self._made:
            with uncollected():
                opponents = [in_episode(opponent, episode) for opponent in self._opponents]
                hand = hand_of(self._roots, opponents, seat, self._payoff)
                self._made[key] = hand, HandPlan(hand)
        return self._made[key]

    def _first_like(self, episode: int) -> int:
        """The first known episode in which all opponents play as in this one. Its hands are shared: beliefs over hands
        that are the same object are counted by number and not by order, which keeps problems small."""
        if not self._changing:
            return 0
        if episode not in self._play:
            order = positions([node for _, node in self._roots])
            turns = [node.turn()._replace(episode=episode) for node in order if node.player is not None]
            self._play[episode] = [opponent.distribution(turn) for opponent in self._changing for turn in turns]
        return next(known for known, play in self._play.items() if play == self._play[episode])
