"""A particle filter for the positions of an OpenSpiel game that fit a player's own turns.

The filter starts from the positions that fit the previous turn. It follows all chance events and all moves of the other
players, each move equally likely, up to the player's next turn. It keeps the positions that have the information state
of that turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from mage_envs.spiel.form import SpielForm

Weighted = tuple[float, Any]
"""(weight, state). The weight is the probability of chance times that of uniform play by the others."""
Way = tuple[float, Any, int]
"""(weight, state, next action)."""

MOST_WAYS = 50_000
"""Maximum number of ways that are followed at a time; larger sets are sampled."""
MOST_WORLDS = 2_000
"""Maximum number of positions that are kept from turn to turn; larger sets are sampled."""


class NothingFits(ValueError):
    """An information state that fits none of the tracked positions."""


def _ways_on(level: Sequence[Weighted], player: int) -> tuple[list[Weighted], list[Way]]:
    """Return the positions of `level` at which the player is to move, and the possible next actions in the others."""
    turn_worlds: list[Weighted] = []
    ways: list[Way] = []
    for weight, state in level:
        if state.is_terminal():
            continue
        if state.current_player() == player:
            turn_worlds.append((weight, state))
            continue
        if state.is_chance_node():
            chance_outcomes = state.chance_outcomes()
        else:
            actions = state.legal_actions()
            chance_outcomes = [(action, 1 / len(actions)) for action in actions]
        ways.extend((weight * chance, state, action) for action, chance in chance_outcomes if chance > 0)
    return turn_worlds, ways


@lru_cache(maxsize=16)
def first_turns(form: SpielForm, player: int) -> Mapping[str, Sequence[Weighted]] | None:
    """Return the positions of a player's first turn in a hand, by information state; None if there are too many."""
    # The result does not depend on random numbers, so all hands of a process share it.
    level: list[Weighted] = [(1.0, form.load().new_initial_state())]
    worlds: dict[str, list[Weighted]] = {}
    while level:
        turn_worlds, ways = _ways_on(level, player)
        if len(ways) > MOST_WAYS:
            return None
        for weight, state in turn_worlds:
            worlds.setdefault(form.key_of(state, player), []).append((weight, state))
        level = [(weight, state.child(action)) for weight, state, action in ways]
    return worlds


class Worlds:
    """The possible positions of one player during one hand."""

    def __init__(self, form: SpielForm, rng: np.random.Generator) -> None:
        self._form = form
        self._rng = rng
        self._before: list[Weighted] | None = None
        """Positions right after the player's last move, or None before the first one."""
        self.now: Sequence[Weighted] = ()
        """Positions that fit the player's present turn."""
        self._cumulated: Any = None

    def see(self, player: int, key: str) -> None:
        """Advance to the player's turn with the information state `key`; raise NothingFits if no position fits."""
        first_worlds = first_turns(self._form, player) if self._before is None else None
        worlds = list(first_worlds.get(key, ())) if first_worlds is not None else self._follow(player, key)
        if not worlds:
            raise NothingFits(f"none of the tracked positions fits the information state of player {player}")
        self.now = [
            (weight, state) for weight, state, _ in self._sample_ways([(*world, 0) for world in worlds], MOST_WORLDS)
        ]
        # `sample` is called once per simulation, so the cumulative weights are computed once per turn.
        weights = np.cumsum([weight for weight, _ in self.now])
        self._cumulated = weights / weights[-1]

    def _follow(self, player: int, key: str) -> list[Weighted]:
        level = [(1.0, self._form.load().new_initial_state())] if self._before is None else self._before
        worlds: list[Weighted] = []
        while level:
            turn_worlds, ways = _ways_on(level, player)
            worlds.extend(world for world in turn_worlds if self._form.key_of(world[1], player) == key)
            level = [(weight, state.child(action)) for weight, state, action in self._sample_ways(ways, MOST_WAYS)]
        return worlds

    def _sample_ways(self, ways: list[Way], limit: int) -> list[Way]:
        """Return at most `limit` of the ways, drawn by weight; drawn ways have equal weights."""
        if len(ways) <= limit:
            return ways
        # Drawing by weight and then weighting equally keeps the total weight and is unbiased.
        weights = np.array([weight for weight, _, _ in ways])
        indices = self._rng.choice(len(ways), limit, p=weights / weights.sum())
        share = float(weights.sum()) / limit
        return [(share, *ways[index][1:]) for index in indices.tolist()]

    def play(self, action: int) -> None:
        """Apply the player's own move to every position."""
        self._before = [(weight, state.child(action)) for weight, state in self.now]

    def sample(self) -> Any:
        """Return a copy of one of the positions, drawn by weight."""
        index = int(np.searchsorted(self._cumulated, self._rng.random(), side="right"))
        return self.now[min(index, len(self.now) - 1)][1].clone()
