"""How large the tree of a game of OpenSpiel is."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from mage_envs.games.openspiel.loading import load

SMALL = 1_000_000
"""Histories up to which a game counts as small: it can be solved, and its tree walked."""
_PROBES = 30
_HOPELESS = 100.0
"""How far the estimate from a few random hands may exceed a limit before the tree is not even counted."""


@lru_cache(maxsize=64)
def estimated_histories(text: str) -> float:
    """About how many histories the game has, from a few random hands (Knuth 1975, "Estimating the efficiency of
    backtrack programs"); infinite where a single hand already stands for more than 10^12."""
    rng = np.random.default_rng(0)
    game, total = load(text), 0.0
    for _ in range(_PROBES):
        state, weight = game.new_initial_state(), 1.0
        while not state.is_terminal():
            total += weight
            actions = state.legal_actions()
            weight *= len(actions)
            if weight > 1e12:
                return float("inf")
            state.apply_action(actions[int(rng.random() * len(actions))])
        total += weight
    return total / _PROBES


@lru_cache(maxsize=64)
def count_histories(text: str, most: int) -> int | None:
    """How many histories the game has, None where it is more than `most`."""
    if estimated_histories(text) > _HOPELESS * most:
        return None
    count, stack = 0, [load(text).new_initial_state()]
    while stack:
        state = stack.pop()
        count += 1
        if count > most:
            return None
        if not state.is_terminal():
            stack.extend(state.child(action) for action in state.legal_actions())
    return count


def is_small(text: str) -> bool:
    """Whether the game seems to have at most `SMALL` histories: a guess from random hands."""
    return estimated_histories(text) <= SMALL
