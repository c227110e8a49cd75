"""An opponent that learns within a meta-episode: it counts what the others do, and plays the best response to that.

It has only what its seat is shown: at each of its turns what it knows, and at the end of a hand what its seat sees then
(where whoever plays the hands tells it). What the others held is inferred: the ways that could have led here are
weighed by chance and by the present estimate of the others' play, and each of their moves on such a way is counted
with that weight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from mage_envs.core import ExactPolicy, TextGame, Turn
from mage_envs.games.table import GameNode
from opponents.exact import BestResponse, best_response
from opponents.exact.tree import Roots, roots_of
from opponents.registry import register_opponent
from opponents.tabular import RulePolicy

Counts = Mapping[str, Mapping[str, float]]
"""Information state to action to how often it was seen, in fractions where it is not certain."""
Way = tuple[float, GameNode, tuple[tuple[str, str], ...]]
"""Probability, position, and the others' (information state, action) on the way since one's last turn."""
GAMES = ("KuhnPoker", "LeducPoker", "OpenSpiel")


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

    deterministic = False

    def __init__(self, respond: Callable[[ExactPolicy, int], BestResponse], roots: Roots, prior: float) -> None:
        """`respond`: (policy of the others, own seat) to the best response; `roots`: the game's tree."""
        self._respond = respond
        self._roots = roots
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
        self._ways = [(chance, root, ()) for chance, root in self._roots]
        self._responses = {}
        self._model = RulePolicy(partial(estimate, {s: dict(row) for s, row in self._counts.items()}, self._prior))

    def act(self, turn: Turn) -> str:
        seat = turn.player
        reached, _ = self._follow(seat)
        found = [way for way in reached if way[1].turn().information_state == turn.information_state]
        self._count(found)
        if seat not in self._responses:
            self._responses[seat] = self._respond(self._model, seat).policy
        action = self._responses[seat].act(turn)
        self._ways = [(weight, node.children[action], ()) for weight, node, _ in found]
        return action

    def see_result(self, turn: Turn) -> None:
        """The hand is over: counts what the others did since the own last move, as far as the end tells."""
        _, ended = self._follow(turn.player)
        self._count([way for way in ended if way[1].view(turn.player) == turn.observation])

    def _follow(self, seat: int) -> tuple[list[Way], list[Way]]:
        """All ways on from the own last move: to the own next turn, and to the end of the hand."""
        reached: list[Way] = []
        ended: list[Way] = []
        stack, self._ways = self._ways, []
        while stack:
            weight, node, trail = stack.pop()
            if node.player is None:
                ended.append((weight, node, trail))
            elif node.player == seat:
                reached.append((weight, node, trail))
            else:
                there = node.turn()
                row = self._model.distribution(there)
                stack.extend(
                    (weight * row[action], child, (*trail, (there.information_state, action)))
                    for action, child in node.children.items()
                )
        return reached, ended

    def _count(self, ways: list[Way]) -> None:
        """Counts the others' moves on these ways, each with its way's share of the probability."""
        total = sum(weight for weight, _, _ in ways)
        for weight, _, trail in ways:
            for state, action in trail:
                seen = self._counts.setdefault(state, {})
                seen[action] = seen.get(action, 0.0) + weight / total

    def __getstate__(self) -> dict[str, Any]:
        """All but the running hand; `reset` starts the next one."""
        return {**self.__dict__, "_ways": [], "_responses": {}}


@register_opponent("counting", games=GAMES, needs_game=True)
def counting(game: TextGame, prior: float = 1.0) -> Counting:
    """`counting:5` believes in even play until it has seen much more than 5 moves at an information state."""
    if prior <= 0:
        raise ValueError(f"Opponent 'counting': prior must be above 0, got {prior}.")
    return Counting(partial(best_response, game), roots_of(game), prior)
