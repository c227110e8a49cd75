"""Array form of the learner's hand: the payoff of every branch, and the decisions between branches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from mage_envs.core import Game, is_state_policy
from mage_envs.opponents.builtin import Uniform
from mage_envs.opponents.exact.learner_hands import Branch, Floats, HandMemory, LearnerHand, Places, hand_of
from mage_envs.opponents.exact.modes import Memories, Modes
from mage_envs.opponents.exact.tree import Objective, payoff_of
from mage_envs.tree import Node, pause_garbage_collection, positions, roots_of

CELLS = 2**25
"""Maximum number of values in one table of branches times states (256 MB)."""


class Decisions(NamedTuple):
    """D decisions with A actions each, grouped by branch, so that one numpy operation handles all of them."""

    options: Places
    """Branch after each action, (D, A)."""
    starts: Places
    """Index of the first decision of each of the F branches, (F,)."""
    branches: Places
    """Index of each branch, (F,)."""


Best = Callable[[Floats], Places]
"""Function from the actions' payoffs in each episode, (K, D, A, S), to the chosen actions, (D, S)."""


class DecisionTree:
    """Branches with payoffs of their own, and decisions between them. The root is the last branch.

    The value of a branch is its own payoff plus the values of the best options of its decisions. Values are multiplied
    by the branch's counterfactual probability, so the values of several decisions are simply added.
    """

    def __init__(self, payoff: Floats, decisions: Sequence[Decisions]) -> None:
        self.payoff = payoff
        """Payoff of the endings of each branch, times its probability, by opponent, (B, N)."""
        self.decisions = decisions
        """Groups of decisions, in an order in which the options of a group have no decisions in later groups."""

    @classmethod
    def of(cls, payoff: Floats, options: Sequence[Sequence[Sequence[int]]]) -> DecisionTree:
        """Return the tree of branches in post-order.

        `options[b][d][a]` is the branch after action a in decision d of branch b. It must be smaller than b.
        """
        # Decisions are grouped by height above the endings and by number of actions: a group of equal height depends on
        # lower groups only, and equal numbers of actions fit into one array.
        groups: dict[tuple[int, int], list[tuple[int, Sequence[int]]]] = defaultdict(list)
        heights: list[int] = []
        for branch, branch_decisions in enumerate(options):
            heights.append(1 + max((heights[child] for decision in branch_decisions for child in decision), default=-1))
            for decision in branch_decisions:
                groups[heights[branch], len(decision)].append((branch, decision))
        decisions = []
        for _, group in sorted(groups.items()):
            # Branches were visited in increasing order, so the decisions of one branch are neighbours.
            branches, starts = np.unique([branch for branch, _ in group], return_index=True)
            decisions.append(Decisions(np.array([decision for _, decision in group], np.intp), starts, branches))
        return cls(payoff, decisions)

    def worth(self, beliefs: Floats) -> Floats:
        """Return the value of each branch with optimal decisions, times its probability, (B, S).

        `beliefs` holds the probability of each opponent, (N, S).
        """
        worth: Floats = self.payoff @ beliefs
        # `worth[None]` is a view, so `decide` changes `worth` in place.
        self.decide(worth[None], lambda payoffs: payoffs[0].argmax(axis=1))
        return worth

    def decide(self, payoffs: Floats, best: Best) -> None:
        """Add the payoffs of the decisions in place.

        `payoffs` holds each branch's own payoff in each episode, (K, B, S); `best` chooses the actions.
        """
        for options, starts, branches in self.decisions:
            option_payoffs = payoffs[:, options]
            chosen_payoffs = np.take_along_axis(option_payoffs, best(option_payoffs)[None, :, None], axis=2)[:, :, 0]
            # `reduceat` sums over the decisions of each branch.
            payoffs[:, branches] += np.add.reduceat(chosen_payoffs, starts, axis=1)


class HandPlan:
    """A hand with its branches numbered in post-order; the root is the last branch."""

    def __init__(self, hand: LearnerHand) -> None:
        self.evidence = hand.evidence
        """Relative likelihoods of the evidence, (E, N)."""
        self.number: dict[int, int] = {}
        """Map from the id of a branch to its index; valid while the hand exists, which keeps its branches alive."""
        options: list[list[list[int]]] = []
        branch_of = np.zeros(len(hand.tells), np.intp)

        def visit(branch: Branch) -> int:
            branch_decisions = [[visit(child) for child in actions.values()] for actions in branch.decisions.values()]
            options.append(branch_decisions)
            number = self.number[id(branch)] = len(options) - 1
            branch_of[list(branch.outcomes.values())] = number
            return number

        visit(hand.root)
        payoff = np.zeros((len(options), hand.evidence.shape[1]))
        np.add.at(payoff, branch_of, hand.payoff)
        self.tree = DecisionTree.of(payoff, options)
        # Endings of one branch with the same evidence are merged: they lead to the same belief. A pair of branch and
        # evidence is encoded as one integer, which also sorts by branch.
        pairs, same = np.unique(branch_of * len(hand.evidence) + hand.tells, return_inverse=True)
        self.ends, self.tells = np.divmod(pairs, len(hand.evidence))
        """Branch and piece of evidence of each merged ending, sorted by branch."""
        self.weight = np.bincount(same.reshape(-1), hand.weight)
        """Weight of each merged ending."""

    @property
    def cells(self) -> int:
        """Number of values in the largest table for one belief and one episode."""
        return max(len(self.tree.payoff), len(self.evidence), len(self.ends))

    def add_later_hands(self, payoffs: Floats, next_values: Floats) -> None:
        """Add the value of the later hands after each ending to `payoffs`, (B, S), in place.

        `next_values` is the value after each piece of evidence, times its probability under the belief, (E, S).
        """
        branches, starts = np.unique(self.ends, return_index=True)
        parts = next_values[self.tells]
        parts *= self.weight[:, None]
        payoffs[branches] += np.add.reduceat(parts, starts)

    def branch_probabilities(self) -> Floats:
        """Return the counterfactual probability of each branch by opponent, (B, N)."""
        values = np.zeros_like(self.tree.payoff)
        np.add.at(values, self.ends, self.weight[:, None] * self.evidence[self.tells])
        # Every action of a decision has the same counterfactual probability, so the first one is enough.
        for options, starts, branches in self.tree.decisions:
            values[branches] += np.add.reduceat(values[options[:, 0]], starts)
        return values


class LearnerHands:
    """The hands of a game against several opponents, by seat, episode and memories; each is enumerated on first use."""

    def __init__(self, game: Game, modes: Modes, objective: Objective = "returns") -> None:
        """Prepare the hands.

        Args:
            game: Game with an enumerable tree.
            objective: Payoff of the hands, `returns` or `success`.

        Raises:
            NotEnumerable: If the tree of the game cannot be enumerated.
        """
        self.roots, self._payoff, self.modes = roots_of(game), payoff_of(objective), modes
        self._hands: dict[tuple[int, int, Memories], tuple[LearnerHand, HandPlan]] = {}
        """Hands by seat, by the first episode with the same play of all opponents, and by memories."""
        self._changing = [opponent for opponent in modes.policies if not is_state_policy(opponent)]
        """Opponents that may change between episodes."""
        self._play: dict[int, list[Mapping[str, float]]] = {}
        """Distributions of the changing opponents at every position, by episode."""
        self._steps: dict[tuple[int, int, int, Hashable, Node], Hashable] = {}
        """Memories after hands, by episode, seat, mode, memory before the hand, and its end."""

    def get(self, seat: int, episode: int = 0, memories: Memories = ()) -> tuple[LearnerHand, HandPlan]:
        """Return a hand.

        Args:
            memories: Memory of each opponent before the hand.

        Raises:
            NotExact: If a memory after the hand depends on what only the opponent sees.
            TooManyStates: If the hand has too many decisions.
        """
        key = seat, self._first_like(episode), memories
        if key not in self._hands:
            with pause_garbage_collection():
                self._hands[key] = self.hand_from(self.roots, seat, episode, memories)
        return self._hands[key]

    def hand_from(
        self, roots: Sequence[tuple[float | Floats, Node]], seat: int, episode: int, memories: Memories
    ) -> tuple[LearnerHand, HandPlan]:
        """Return a hand that begins at other positions, with their probabilities by opponent.

        The other arguments and the errors are those of `get`.
        """
        memory = HandMemory(partial(self._step, episode, 1 - seat, memories), self.modes.can_follow)
        opponents = self.modes.opponents(memories, episode)
        hand = hand_of(roots, opponents, seat, self._payoff, memory if memories else None)
        return hand, HandPlan(hand)

    def whole(self, seat: int) -> LearnerHand:
        """Return the hand of a seat against an opponent that may play anything, with all decisions of the learner."""
        return hand_of(self.roots, [Uniform()], seat, self._payoff)

    def _step(self, episode: int, seat: int, memories: Memories, mode: int, node: Node) -> Hashable:
        """Return the memory of a mode in a seat after the end of a hand."""
        key = episode, seat, mode, memories[mode], node
        if key not in self._steps:
            self._steps[key] = self.modes.step(mode, memories[mode], node, seat, episode)
        return self._steps[key]

    def _first_like(self, episode: int) -> int:
        """Return the first known episode in which all opponents play as in this one.

        Episodes with the same play share their hands. For hands that are the same object, the order of evidence does
        not matter, which keeps the number of states small.
        """
        if not self._changing:
            return 0
        if self.modes.learns:
            return episode
        if episode not in self._play:
            order = positions([node for _, node in self.roots])
            turns = [node.turn()._replace(episode=episode) for node in order if node.player is not None]
            self._play[episode] = [opponent.distribution(turn) for opponent in self._changing for turn in turns]
        return next(known_episode for known_episode, play in self._play.items() if play == self._play[episode])
