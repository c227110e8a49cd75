"""Size of the tree of an OpenSpiel game."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from mage_envs.spiel.loading import load

SMALL = 1_000_000
"""Maximum number of histories of a small game, which can be solved and enumerated."""
_PROBES = 30
"""Random hands per estimate."""
_HOPELESS = 100.0
"""Factor by which the estimate must exceed a limit before counting is skipped, because an estimate is rough."""


@lru_cache(maxsize=64)
def estimate_histories(text: str) -> float:
    """Return an estimate of the number of histories, from a few random hands.

    The method is that of Knuth 1975, "Estimating the efficiency of backtrack programs". The estimate is infinite if
    one hand alone has a weight above 10^12.
    """
    # A fixed seed, so that every process makes the same decisions about the game.
    rng = np.random.default_rng(0)
    game, total = load(text), 0.0
    for _ in range(_PROBES):
        state, weight = game.new_initial_state(), 1.0
        while not state.is_terminal():
            # The product of the branching factors so far estimates the number of histories at this depth.
            total += weight
            actions = state.legal_actions()
            weight *= len(actions)
            if weight > 1e12:
                return float("inf")
            state.apply_action(actions[int(rng.random() * len(actions))])
        total += weight
    return total / _PROBES


@lru_cache(maxsize=64)
def count_histories(text: str, limit: int) -> int | None:
    """Return the number of histories, or None if it exceeds `limit`."""
    if estimate_histories(text) > _HOPELESS * limit:
        return None
    count, stack = 0, [load(text).new_initial_state()]
    while stack:
        state = stack.pop()
        count += 1
        if count > limit:
            return None
        if not state.is_terminal():
            stack.extend(state.child(action) for action in state.legal_actions())
    return count


def is_small(text: str) -> bool:
    """Return True if the game has at most `SMALL` histories, as estimated from random hands."""
    return estimate_histories(text) <= SMALL
