"""`TableEnv`: the fast path of `TextGameEnv` for one hand of a table game; same bytes, a fraction of the time.

Opponents that are functions of the information state are tabulated too, so that a reply to a position is one
lookup; uniform draws are taken in blocks, which yields the same numbers as one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from mage_envs.core import HandResult, TextGame
from mage_envs.env import OpponentSource, TextGameEnv
from mage_envs.games.table import TableGame, TableNode
from mage_envs.randomness import SharedStream, Uniforms

BLOCK = 256
"""Uniform draws taken from the generator at a time."""


class End(NamedTuple):
    """What the last step of a hand returns, for one seat."""

    observation: str
    value: float
    success: bool
    hands: tuple[HandResult]


def _in_blocks(generator: np.random.Generator) -> Iterator[float]:
    while True:
        yield from generator.random(BLOCK).tolist()


class TableEnv(TextGameEnv):
    """One hand per episode of a two-player `TableGame`; everything else is `TextGameEnv`'s."""

    game: TableGame

    @staticmethod
    def suits(game: TableGame) -> bool:
        """Whether the table is all there is to the game, and `info` holds nothing but what every game tells."""
        rules = type(game)
        return game.is_plain() and (rules.metrics, rules.task_id, rules.category) == (
            TextGame.metrics,
            TextGame.task_id,
            TextGame.category,
        )

    def __init__(self, game: TableGame, opponents: OpponentSource, **options: Any) -> None:
        super().__init__(game, opponents, **options)
        self._ends: tuple[dict[TableNode, End], ...] = ({}, {})
        """Final positions, per seat."""
        self._draws: Uniforms | None = None
        self._always = {"first": 0, "second": 1}.get(self.seat_mode)
        self._one_root = game.roots()[0][1] if len(game.roots()) == 1 else None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        if seed is not None or self._draws is None:
            gym.Env.reset(self, seed=seed)
            self._random = _in_blocks(self.np_random).__next__
            self._draws = Uniforms(self._random)
        random = self._random
        seat = int(random() * 2) if self._always is None else self._always
        seated = self.opponents.draw(self._draws)
        if options:
            name, chosen = self.read_options(options)
            seat = seat if chosen is None else chosen
            seated = seated if name is None else self.opponents.named(name)
        self.seated = seated
        self._replies = replies = seated.replies
        if replies is None:
            for policy in seated.remembering:
                policy.begin_meta_episode()
            self.begin(seated, seat, SharedStream(self.np_random))
            return self.observation(), {"seat": seat, "legal_actions": self._legal(), "invalid_reason": None}
        self.seat = seat
        self.over = self.timed_out = False
        self.hands = []
        self._streams = None
        self._turns = 0
        node = self._one_root or self.game.root_at(random())
        if node.player != seat:
            node = replies.respond(node, seat, random)
        self.game.node = node
        return node.observations[seat], {"seat": seat, "legal_actions": node.legal, "invalid_reason": None}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        replies = self._replies
        if replies is None or self.over or self._streams is not None:
            return super().step(action)
        game = self.game
        found = game.node.accepted.get(action)
        if found is None or self._turns + 1 >= self.max_turns:
            return self._step_by_the_book(action)
        self._turns += 1
        seat = self.seat
        node = found[1]
        if node.player is not None:
            node = replies.respond(node, seat, self._random)
        game.node = node
        if node.player is not None:
            info = {"seat": seat, "legal_actions": node.legal, "invalid_reason": None}
            return node.observations[seat], 0.0, False, False, info
        end = self._ends[seat].get(node) or self._end(node, seat)
        self.hands = list(end.hands)
        self.hand_result = end.observation
        self.over = True
        final = {
            "seat": seat,
            "legal_actions": (),
            "invalid_reason": None,
            "success": end.success,
            "timeout": False,
            "opponent": self.seated.name,
        }
        return end.observation, end.value, True, False, final

    def _step_by_the_book(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Other spellings, illegal actions and the last turn: rare, so they take the general way."""
        self._first_seat, self._alternates, self._episode, self.carried = self.seat, False, 0, ""
        self._uniform = self._random
        return super().step(action)

    def _end(self, node: TableNode, seat: int) -> End:
        value = node.returns[seat]
        hand = HandResult(value, False, seat)
        end = self._ends[seat][node] = End(node.observations[seat], value, self.game.is_success([hand]), (hand,))
        return end
