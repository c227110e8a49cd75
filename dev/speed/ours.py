"""Our work that is timed: steps of a base id, and moves of a search. The module does not import the trainer."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import gymnasium as gym

from mage_envs.hand import Hand, Seat, Table
from mage_envs.opponents import make_opponent
from mage_envs.random.streams import Streams
from mage_envs.registry import make_game

Work = Callable[[], int]
"""Function that does some work and returns the number of units."""


def env_steps(env: gym.Env[Any, Any], steps: int) -> Work:
    """Return work of `steps` learner moves, including the opponent's replies and the resets."""
    # Seeded once. The later resets draw new deals from the same stream.
    env.reset(seed=0)

    def work() -> int:
        info = env.reset()[1]
        for number in range(steps):
            legal = info["legal_actions"]
            _, _, terminated, truncated, info = env.step(legal[number % len(legal)])
            if terminated or truncated:
                info = env.reset()[1]
        return steps

    return work


def search(simulations: int, games: int) -> Work:
    """Return work of moves of the opponent `mcts:N` against itself in Tic-Tac-Toe, including its resets."""
    name, game = f"mcts:{simulations}", make_game("TicTacToe")
    table = Table([Seat(make_opponent(name, game), name) for _ in range(2)])
    hand, numbers = Hand(game), count()
    hand.begin_episode(Streams(0))

    def work() -> int:
        moves = 0
        for _ in range(games):
            hand.deal(table, next(numbers))
            moves += len(hand.moves)
        return moves

    return work
