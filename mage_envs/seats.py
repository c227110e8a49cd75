"""Policies at a table: each in a seat, asked for its move, or read off a table where its replies may be tabulated."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, cast

import numpy as np

from mage_envs.core import (
    Policy,
    RemembersMetaEpisode,
    SeesResults,
    State,
    StatePolicy,
    TellsCalls,
    Turn,
    is_state_policy,
)
from mage_envs.distributions import cuts_of

Said = tuple[str, State]
"""A move: the action, canonically spelt, and the state after it."""
Reply = tuple[tuple[tuple[float, Said], ...], Said]
"""((threshold, move), ...) in rising order, and the move above the last threshold."""


class Asking(Protocol):
    """What a seat may ask of the hand that it plays in."""

    def turn(self, seat: int) -> Turn:
        """What that player knows now."""
        ...

    def draw(self, seat: int) -> float:
        """The next uniform number of that seat's stream in this hand."""
        ...


class Seat:
    """One policy at the table. `table` holds the replies of one that follows the information state, as they occur."""

    def __init__(self, policy: Policy, name: str, table: dict[State, Reply] | None = None) -> None:
        """`table` is for games whose states are shared, and is ignored for a policy that may not be tabulated."""
        self.policy = policy
        self.name = name
        self.watcher = policy if isinstance(policy, SeesResults) else None
        """The policy, where it is told how hands end."""
        self.teller = policy if isinstance(policy, TellsCalls) else None
        """The policy, where it tells what a model answered it."""
        self.remembering = policy if isinstance(policy, RemembersMetaEpisode) else None
        """The policy, where it is told to forget."""
        self._table = table if is_state_policy(policy) else None
        self.is_asked = self._table is None
        """Whether the policy itself is asked for each move, so that it must be reset at each hand."""

    def begin_meta_episode(self) -> None:
        """Tells a policy that remembers to forget."""
        if self.remembering is not None:
            self.remembering.begin_meta_episode()

    def reset(self, rng: np.random.Generator) -> None:
        """Starts a hand for the policy."""
        self.policy.reset(rng)

    def see_result(self, turn: Turn) -> None:
        """Shows the end of a hand to a policy that is told of it."""
        if self.watcher is not None:
            self.watcher.see_result(turn)

    def move(self, state: State, place: int, hand: Asking) -> Said:
        """The policy's move; raises whatever the policy or the rules raise."""
        if self._table is None:
            return state.move(self.policy.act(hand.turn(place)))
        cuts, last = self._table.get(state) or self._learn(state, hand.turn(place), self._table)
        if cuts:
            draw = hand.draw(place)
            for threshold, move in cuts:
                if draw < threshold:
                    return move
        return last

    def _learn(self, state: State, asked: Turn, table: dict[State, Reply]) -> Reply:
        row = cast(StatePolicy, self.policy).distribution(asked)
        cuts, last = cuts_of(asked.information_state, row, asked.legal_actions)
        moves = tuple((threshold, (action, state.after(action))) for threshold, action in cuts)
        table[state] = reply = (moves, (last, state.after(last)))
        return reply

    def __getstate__(self) -> dict[str, Any]:
        """All but the replies, which are learnt again."""
        return {**self.__dict__, "_table": None if self._table is None else {}}


class Table:
    """Who sits where in a hand: by seat a policy, or None where whoever drives the hand answers."""

    def __init__(self, seats: Iterable[Seat | None]) -> None:
        self.seats = tuple(seats)
        taken = [(place, seat) for place, seat in enumerate(self.seats) if seat is not None]
        self.asked = [(place, seat) for place, seat in taken if seat.is_asked]
        """Who is reset at each hand, with their places; so below."""
        self.remembering = [(place, seat) for place, seat in taken if seat.remembering is not None]
        """Who is told that a meta-episode begins."""
        self.watching = [(place, seat) for place, seat in taken if seat.watcher is not None]
        """Who is told how a hand ended."""


def open_table(players: int) -> Table:
    """A table at which every seat is open."""
    return Table((None,) * players)
