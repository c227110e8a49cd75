"""An opponent that learns within a meta-episode: it counts what the others do, and plays the best response to that.

It has only what its seat is shown: at each of its turns what it knows, and at the end of a hand what its seat sees then
(where whoever plays the hands tells it). What the others held is inferred: the ways that could have led here are
weighed by chance and by the present estimate of the others' play, and each of their moves on such a way is counted
with that weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from mage_envs.core import ExactPolicy, Game, Turn
from opponents.exact import best_response
from opponents.exact.tree import Node, roots_of
from opponents.tabular import RulePolicy

Counts = Mapping[str, Mapping[str, float]]
"""Information state to action to how often it was seen, in fractions where it is not certain."""
Place = tuple[int, tuple[str, ...]]
"""A position of the tree: the number of its root, and the moves from there."""
Way = tuple[float, Place, tuple[tuple[str, str], ...]]
"""Probability, position, and the others' (information state, action) on the way since one's last turn."""


def estimate(counts: Counts, prior: float, turn: Turn) -> dict[str, float]:
    """The rule of the estimated player: observed frequencies, on top of `prior` even observations."""
    seen = counts.get(turn.information_state, {})
    total = prior + sum(seen.values())
    even = prior / len(turn.legal_actions)
    return {action: (even + seen.get(action, 0.0)) / total for action in turn.legal_actions}


class Counting:
    """Best response to the others' frequencies in this meta-episode, worked out anew for each hand.

    `prior`: how many even observations each information state starts with; the first hand is the best response to
    uniform play.
    """

    def __init__(self, game: Game, prior: float) -> None:
        self._game = game
        self._prior = prior
        self._counts: dict[str, dict[str, float]] = {}
        self._responses: dict[int, ExactPolicy] = {}
        """By seat, as long as nothing new was counted."""
        self._ways: list[Way] = []
        """What may have happened up to the own last move of the hand."""

    def begin_meta_episode(self) -> None:
        """Forgets what was counted."""
        self._counts = {}
        self._responses = {}

    def reset(self, rng: np.random.Generator) -> None:
        """Starts a hand; what was counted stays."""
        roots = roots_of(self._game)
        self._ways = [(chance, (number, ()), ()) for number, (chance, _) in enumerate(roots)]
        self._responses = {}
        self._model = RulePolicy(partial(estimate, {s: dict(row) for s, row in self._counts.items()}, self._prior))

    def act(self, turn: Turn) -> str:
        seat = turn.player
        reached, _ = self._follow(seat)
        found = [way for way in reached if self._node(way[1]).turn().information_state == turn.information_state]
        self._count(found)
        if seat not in self._responses:
            self._responses[seat] = best_response(self._game, self._model, seat).policy
        action = self._responses[seat].act(turn)
        self._ways = [(weight, (root, (*moves, action)), ()) for weight, (root, moves), _ in found]
        return action

    def see_result(self, turn: Turn) -> None:
        """The hand is over: counts what the others did since the own last move, as far as the end tells."""
        _, ended = self._follow(turn.player)
        self._count([way for way in ended if self._node(way[1]).view(turn.player) == turn.observation])

    def _node(self, place: Place) -> Node:
        root, moves = place
        node = roots_of(self._game)[root][1]
        for action in moves:
            node = node.children[action]
        return node

    def _follow(self, seat: int) -> tuple[list[Way], list[Way]]:
        """All ways on from the own last move: to the own next turn, and to the end of the hand."""
        reached: list[Way] = []
        ended: list[Way] = []
        stack, self._ways = self._ways, []
        while stack:
            weight, place, trail = stack.pop()
            node = self._node(place)
            if node.player is None:
                ended.append((weight, place, trail))
            elif node.player == seat:
                reached.append((weight, place, trail))
            else:
                root, moves = place
                there = node.turn()
                row = self._model.distribution(there)
                stack.extend(
                    (weight * row[action], (root, (*moves, action)), (*trail, (there.information_state, action)))
                    for action in node.children
                )
        return reached, ended

    def _count(self, ways: list[Way]) -> None:
        """Counts the others' moves on these ways, each with its way's share of the probability."""
        total = sum(weight for weight, _, _ in ways)
        for weight, _, trail in ways:
            for state, action in trail:
                seen = self._counts.setdefault(state, {})
                seen[action] = seen.get(action, 0.0) + weight / total


def counting(game: Game, prior: float = 1.0) -> Counting:
    """`counting:5` believes in even play until it has seen much more than 5 moves at an information state."""
    if prior <= 0:
        raise ValueError(f"Opponent 'counting': prior must be above 0, got {prior}.")
    roots_of(game)
    return Counting(game, prior)
