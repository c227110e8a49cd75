"""Which positions of a game of OpenSpiel a player may be in, from nothing but what their own turns told them.

A particle filter: from the positions that fitted the last turn, all chance and all moves of the others (each as likely
as the next) are followed up to the player's next turn, and those remain in which they would know what they know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from opponents.openspiel import SpielForm

Weighted = tuple[float, Any]
"""A state with its weight: the probability of chance times that of even moves by the others."""
Way = tuple[float, Any, int]
"""A state with its weight, and what happens next."""

MOST_WAYS = 50_000
"""Ways that are followed at a time; of more, a random selection is."""
MOST_WORLDS = 2_000
"""Positions that are kept from turn to turn; of more, a random selection is."""


class NothingFits(ValueError):
    """No position that was followed fits what the player knows."""


def _ways_on(level: Sequence[Weighted], player: int) -> tuple[list[Weighted], list[Way]]:
    """The positions of `level` where the player is to move, and what may happen next in the others."""
    reached: list[Weighted] = []
    ways: list[Way] = []
    for weight, state in level:
        if state.is_terminal():
            continue
        if state.current_player() == player:
            reached.append((weight, state))
            continue
        if state.is_chance_node():
            odds = state.chance_outcomes()
        else:
            actions = state.legal_actions()
            odds = [(action, 1 / len(actions)) for action in actions]
        ways.extend((weight * chance, state, action) for action, chance in odds if chance > 0)
    return reached, ways


@lru_cache(maxsize=16)
def first_turns(form: SpielForm, player: int) -> Mapping[str, Sequence[Weighted]] | None:
    """What a player may know at their first turn of a hand, with the positions; None where these are too many."""
    level: list[Weighted] = [(1.0, form.load().new_initial_state())]
    found: dict[str, list[Weighted]] = {}
    while level:
        reached, ways = _ways_on(level, player)
        if len(ways) > MOST_WAYS:
            return None
        for weight, state in reached:
            found.setdefault(form.key_of(state, player), []).append((weight, state))
        level = [(weight, state.child(action)) for weight, state, action in ways]
    return found


class Worlds:
    """The positions that one player may be in, during one hand."""

    def __init__(self, form: SpielForm, rng: np.random.Generator) -> None:
        self._form = form
        self._rng = rng
        self._before: list[Weighted] | None = None
        """Positions right after the player's last move, None before the first one."""
        self.now: Sequence[Weighted] = ()
        """Positions that fit the player's turn."""
        self._cumulated: Any = None

    def see(self, player: int, key: str) -> None:
        """Goes on to the player's turn at which they know `key`. Raises NothingFits when nothing fits."""
        known = first_turns(self._form, player) if self._before is None else None
        found = list(known.get(key, ())) if known is not None else self._follow(player, key)
        if not found:
            raise NothingFits(f"none of the positions that were followed fits what player {player} knows")
        self.now = [(weight, state) for weight, state, _ in self._thinned([(*one, 0) for one in found], MOST_WORLDS)]
        weights = np.cumsum([weight for weight, _ in self.now])
        self._cumulated = weights / weights[-1]

    def _follow(self, player: int, key: str) -> list[Weighted]:
        level = [(1.0, self._form.load().new_initial_state())] if self._before is None else self._before
        found: list[Weighted] = []
        while level:
            reached, ways = _ways_on(level, player)
            found.extend(one for one in reached if self._form.key_of(one[1], player) == key)
            level = [(weight, state.child(action)) for weight, state, action in self._thinned(ways, MOST_WAYS)]
        return found

    def _thinned(self, ways: list[Way], most: int) -> list[Way]:
        """At most `most` of them, drawn by weight, which they then share evenly."""
        if len(ways) <= most:
            return ways
        weights = np.array([weight for weight, _, _ in ways])
        chosen = self._rng.choice(len(ways), most, p=weights / weights.sum())
        share = float(weights.sum()) / most
        return [(share, *ways[index][1:]) for index in chosen.tolist()]

    def play(self, action: int) -> None:
        """The player's own move, in every position alike."""
        self._before = [(weight, state.child(action)) for weight, state in self.now]

    def sample(self) -> Any:
        """One of the positions that fit, by weight; a copy."""
        index = int(np.searchsorted(self._cumulated, self._rng.random(), side="right"))
        return self.now[min(index, len(self.now) - 1)][1].clone()
