"""Hands for tests, played by the test itself."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence

import numpy as np

from mage_envs.core import Game, Policy, Turn
from mage_envs.hand import Hand, open_table
from mage_envs.random.streams import Streams
from mage_envs.tree import positions, roots_of


def dealt(game: Game, seed: int = 0, *actions: str) -> Hand:
    """A hand with all seats open, after these actions."""
    hand, streams = Hand(game), Streams(seed)
    hand.begin_episode(streams)
    hand.deal(open_table(game.spec.players))
    for action in actions:
        hand.play(action)
    return hand


def play(game: Game, policies: Sequence[Policy], seed: int) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """One hand of these policies, all legal: the actions and the returns."""
    hand, actions = dealt(game, seed), []
    for policy, rng in zip(policies, np.random.default_rng(seed).spawn(len(policies)), strict=True):
        policy.reset(rng)
    while (player := hand.state.player) is not None:
        action = policies[player].act(hand.turn(player))
        assert action in hand.state.legal_actions
        hand.play(action)
        actions.append(action)
    return tuple(actions), hand.state.returns


def decisions(game: Game, step: int = 1) -> list[Turn]:
    """The turns at the positions of a small game, or at every so manieth of them."""
    nodes = [node for node in positions([root for _, root in roots_of(game)]) if node.player is not None]
    return [node.turn() for node in nodes[::step]]


def check_copies(game: Game, policy: Policy) -> None:
    """Copies made at any turn act as the original does from there on, in this hand and in the next ones."""
    moves = np.random.default_rng(1)
    twins = [policy]
    for number in range(3):
        hand, seat = dealt(game, number), number % game.spec.players
        for twin in twins:
            twin.reset(np.random.default_rng(number))
        while (player := hand.state.player) is not None:
            turn = hand.turn(player)
            action = turn.legal_actions[int(moves.integers(len(turn.legal_actions)))]
            if player == seat:
                twins = [*twins[:5], copy.deepcopy(policy), pickle.loads(pickle.dumps(policy))]
                action, *others = [twin.act(turn) for twin in twins]
                assert others == [action] * len(others)
            hand.play(action)
        for twin in twins:
            twin.on_hand_end(hand.turn(seat))
