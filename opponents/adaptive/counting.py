"""An opponent that learns within a meta-episode: it counts the others' actions and plays the best response to them.

It uses only the turns of its own seat and, if `on_hand_end` is called, the seat's view of the end of each hand. Hidden
cards of the others are inferred. All paths that fit the observations are weighted by chance and by the present estimate
of the others' play. Each move of the others on such a path is counted with the path's weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from mage_envs.core import Game, Policy, Turn
from mage_envs.opponents.exact import best_response
from mage_envs.opponents.tabular import RulePolicy
from mage_envs.tree import Node, roots_of

Counts = Mapping[str, Mapping[str, float]]
"""Map from information state to action to number of observations, fractional if the path is uncertain."""
Position = tuple[int, tuple[str, ...]]
"""Position of the tree: (index of its root, moves from the root)."""
Way = tuple[float, Position, tuple[tuple[str, str], ...]]
"""Path: (probability, position, the others' (information state, action) since the policy's own last turn)."""


def estimate(counts: Counts, prior: float, turn: Turn) -> dict[str, float]:
    """Return the estimated probabilities: observed frequencies plus `prior` uniform observations."""
    action_counts = counts.get(turn.information_state, {})
    total = prior + sum(action_counts.values())
    even = prior / len(turn.legal_actions)
    return {action: (even + action_counts.get(action, 0.0)) / total for action in turn.legal_actions}


class Counting(Policy):
    """A policy that plays the best response to the others' frequencies in this meta-episode, solved for each hand.

    The first hand is the best response to uniform play.
    """

    def __init__(self, game: Game, prior: float) -> None:
        """Initialize the policy for `game`; `prior` is the number of uniform observations per information state."""
        self._game = game
        self._prior = prior
        self._counts: dict[str, dict[str, float]] = {}
        self._responses: dict[int, Policy] = {}
        """Best responses by seat, for the present hand."""
        self._ways: list[Way] = []
        """Possible paths up to the policy's own last move of the hand."""

    def on_meta_episode_start(self) -> None:
        """Forget all counts."""
        self._counts = {}
        self._responses = {}

    def reset(self, rng: np.random.Generator) -> None:
        """Start a hand; the counts are kept."""
        roots = roots_of(self._game)
        self._ways = [(chance, (number, ()), ()) for number, (chance, _) in enumerate(roots)]
        self._responses = {}
        # The model copies the counts: it must not change during the hand, while `_count` adds to them.
        self._model = RulePolicy(partial(estimate, {s: dict(row) for s, row in self._counts.items()}, self._prior))

    def act(self, turn: Turn) -> str:
        seat = turn.player
        turn_ways, _ = self._follow(seat)
        consistent = [way for way in turn_ways if self._node(way[1]).turn().information_state == turn.information_state]
        self._count(consistent)
        if seat not in self._responses:
            self._responses[seat] = best_response(self._game, self._model, seat).policy
        action = self._responses[seat].act(turn)
        self._ways = [(weight, (root, (*moves, action)), ()) for weight, (root, moves), _ in consistent]
        return action

    def on_hand_end(self, turn: Turn) -> None:
        """Count the others' moves since the policy's own last move, given its view of the end of the hand."""
        _, end_ways = self._follow(turn.player)
        self._count([way for way in end_ways if self._node(way[1]).view(turn.player) == turn.observation])

    def _node(self, position: Position) -> Node:
        root, moves = position
        node = roots_of(self._game)[root][1]
        for action in moves:
            node = node.children[action]
        return node

    def _follow(self, seat: int) -> tuple[list[Way], list[Way]]:
        """Return all paths from the policy's own last move to its next turn, and those to the end of the hand."""
        turn_ways: list[Way] = []
        end_ways: list[Way] = []
        # The stack consumes the list. `act` later stores the paths that continue after its own move.
        stack, self._ways = self._ways, []
        while stack:
            weight, position, trail = stack.pop()
            node = self._node(position)
            if node.player is None:
                end_ways.append((weight, position, trail))
            elif node.player == seat:
                turn_ways.append((weight, position, trail))
            else:
                root, moves = position
                turn = node.turn()
                row = self._model.distribution(turn)
                stack.extend(
                    (weight * row[action], (root, (*moves, action)), (*trail, (turn.information_state, action)))
                    for action in node.children
                )
        return turn_ways, end_ways

    def _count(self, ways: list[Way]) -> None:
        """Count the others' moves on these paths, each weighted by its path's share of the total probability."""
        total = sum(weight for weight, _, _ in ways)
        for weight, _, trail in ways:
            for state, action in trail:
                action_counts = self._counts.setdefault(state, {})
                action_counts[action] = action_counts.get(action, 0.0) + weight / total


def counting(game: Game, prior: float = 1.0) -> Counting:
    """Return the counting opponent; `counting:5` starts with 5 uniform observations at each information state.

    Raises ValueError if `prior` is not positive, NotEnumerable if the game has no enumerable tree.
    """
    if prior <= 0:
        raise ValueError(f"Opponent 'counting': prior must be above 0, got {prior}.")
    # Build the tree now, so that a game without one raises when the opponent is made.
    roots_of(game)
    return Counting(game, prior)
