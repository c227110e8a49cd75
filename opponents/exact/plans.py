"""A hand of the learner as arrays: what every branch pays by itself, and the decisions that lead to others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mage_envs.core import ExactPolicy, Game
from opponents.exact.hands import Branch, Floats, LivedHand, Places, hand_of
from opponents.exact.tree import Objective, payoff_of, roots_of, uncollected

Truths = NDArray[np.bool_]

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
        self.add_best(worth)
        return worth

    def add_best(self, worth: Floats) -> None:
        """Adds to (B, S), what each branch is worth by itself, what the best decisions make of it."""
        for options, starts, branches in self.decisions:
            best = worth[options[:, 0]]
            for others in options.T[1:]:
                np.maximum(best, worth[others], out=best)
            worth[branches] += np.add.reduceat(best, starts)

    def decide(self, earned: Floats, best: Best) -> None:
        """Adds to (K, B, S), what each branch earns by itself in each episode, what is earned by `best` decisions."""
        for options, starts, branches in self.decisions:
            each = earned[:, options]
            taken = np.take_along_axis(each, best(each)[None, :, None], axis=2)[:, :, 0]
            earned[:, branches] += np.add.reduceat(taken, starts, axis=1)

    def root_worth(self, beliefs: Floats) -> Floats:
        """(S,): the last row of `worth`, in parts that bound the memory."""
        each = max(1, CELLS // (4 * len(self.payoff)))
        parts = [self.worth(beliefs[:, at : at + each])[-1] for at in range(0, beliefs.shape[1], each)]
        return np.concatenate(parts)

    def without_dominated(self) -> DecisionTree:
        """One that is worth as much at the root for all beliefs, without actions that are never better than another.

        An action is left out if another earns, by some fixed play, at least as much against each single opponent
        as this one can at most earn against it. A decision with one action left is no decision.
        """
        low, high = self.payoff.copy(), self.payoff.copy()
        """(B, N): what some play earns against each opponent, and the most that can be earned against it."""
        settled = np.ones(len(low), bool)
        kept_of: list[Truths] = []
        for options, starts, branches in self.decisions:
            kept = _undominated(low[options], high[options])
            kept_of.append(kept)
            highest = np.where(kept[:, :, None], high[options], -np.inf).max(axis=1)
            choice = np.where(kept, low[options].sum(axis=2), -np.inf).argmax(axis=1)
            chosen = options[np.arange(len(options)), choice]
            high[branches] += np.add.reduceat(highest, starts)
            low[branches] += np.add.reduceat(low[chosen], starts)
            settled[branches] &= np.logical_and.reduceat((kept.sum(axis=1) == 1) & settled[chosen], starts)
        left: dict[int, list[list[int]]] = defaultdict(list)
        """By branch that is not settled, the options of its decisions that are left."""
        for (options, starts, branches), kept in zip(self.decisions, kept_of, strict=True):
            of = np.repeat(branches, np.diff(np.append(starts, len(options))))
            for at in np.flatnonzero(~settled[of]).tolist():
                left[int(of[at])].append(options[at][kept[at]].tolist())
        return _Pruned(self.payoff, high, settled, left).tree()


def _undominated(low: Floats, high: Floats) -> Truths:
    """(D, A), from (D, A, N) twice; of actions that dominate each other the first stays."""
    beats = np.ones((*low.shape[:2], low.shape[1]), bool)
    for opponent in range(low.shape[2]):
        beats &= low[:, :, None, opponent] >= high[:, None, :, opponent]
    first = np.triu(np.ones(beats.shape[1:], bool), 1)
    dominated = beats & (~beats.transpose(0, 2, 1) | first)
    return np.asarray(~dominated.any(axis=1), bool)


class _Pruned:
    """Makes the tree of what is left, joining to each branch those that surely follow it."""

    def __init__(self, payoff: Floats, high: Floats, settled: Truths, left: dict[int, list[list[int]]]) -> None:
        self._payoff, self._high, self._settled, self._left = payoff, high, settled, left
        self._payoffs: list[Floats] = []
        self._options: list[list[list[int]]] = []

    def tree(self) -> DecisionTree:
        self._add(len(self._payoff) - 1)
        return DecisionTree.of(np.array(self._payoffs), self._options)

    def _add(self, branch: int) -> int:
        paid, decisions = self._joined(branch)
        options = [[self._add(after) for after in one] for one in decisions]
        self._payoffs.append(paid)
        self._options.append(options)
        return len(self._payoffs) - 1

    def _joined(self, branch: int) -> tuple[Floats, list[list[int]]]:
        if self._settled[branch]:
            return self._high[branch], []
        paid, decisions = self._payoff[branch], list[list[int]]()
        for options in self._left[branch]:
            if len(options) == 1:
                more, after = self._joined(options[0])
                paid = paid + more
                decisions += after
            else:
                decisions.append(options)
        return paid, decisions


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
        self._made: dict[int, tuple[LivedHand, HandPlan]] = {}

    def seated(self, seat: int) -> tuple[LivedHand, HandPlan]:
        """That of the learner in `seat`; raises `TooManyStates` where it has too many decisions."""
        if seat not in self._made:
            with uncollected():
                hand = hand_of(self._roots, self._opponents, seat, self._payoff)
                self._made[seat] = hand, HandPlan(hand)
        return self._made[seat]
