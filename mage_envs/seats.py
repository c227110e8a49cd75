"""Policies at a table. A seat calls its policy for each move, or uses cached replies if they may be tabulated."""

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
from mage_envs.random.distributions import cuts_of

Said = tuple[str, State]
"""A move: the action in its canonical spelling, and the state after it."""
Reply = tuple[tuple[tuple[float, Said], ...], Said]
"""Moves with rising thresholds, ((threshold, move), ...), and the move above the last threshold."""


class Asking(Protocol):
    """The part of a hand that its seats use."""

    def turn(self, seat: int) -> Turn:
        """Return the player's current `Turn`."""
        ...

    def draw(self, seat: int) -> float:
        """Return the next uniform number of the seat's stream in this hand."""
        ...


class Seat:
    """One policy at the table, with a cache of its replies if it follows the information state."""

    def __init__(self, policy: Policy, name: str, table: dict[State, Reply] | None = None) -> None:
        """Create a seat.

        Args:
            policy: Policy that plays the seat.
            name: Name of the policy in `info` and in errors.
            table: Cache of replies, for games whose states are shared. Ignored if the policy may not be tabulated.
        """
        self.policy = policy
        self.name = name
        self.watcher = policy if isinstance(policy, SeesResults) else None
        """The policy if it implements `on_hand_end`, else None."""
        self.teller = policy if isinstance(policy, TellsCalls) else None
        """The policy if it implements `model_calls`, else None."""
        self.remembering = policy if isinstance(policy, RemembersMetaEpisode) else None
        """The policy if it implements `on_meta_episode_start`, else None."""
        self._table = table if is_state_policy(policy) else None
        self.is_asked = self._table is None
        """True if `act` is called for each move, so that the policy must be reset at each hand."""

    def on_meta_episode_start(self) -> None:
        """Make the policy forget earlier hands, if it remembers them."""
        if self.remembering is not None:
            self.remembering.on_meta_episode_start()

    def reset(self, rng: np.random.Generator) -> None:
        """Start a hand for the policy."""
        self.policy.reset(rng)

    def on_hand_end(self, turn: Turn) -> None:
        """Pass the end of a hand to the policy, if it implements `on_hand_end`."""
        if self.watcher is not None:
            self.watcher.on_hand_end(turn)

    def move(self, state: State, place: int, hand: Asking) -> Said:
        """Return the policy's move. Raises any exception of the policy or of the rules.

        Args:
            state: State in which this seat is to move.
            place: Index of this seat.
            hand: Hand that provides the `Turn` and the random numbers.
        """
        if self._table is None:
            return state.move(self.policy.act(hand.turn(place)))
        cuts, last = self._table.get(state) or self._learn(state, hand.turn(place), self._table)
        # If one action is certain, no number is drawn, as `StatePolicy` promises.
        if cuts:
            draw = hand.draw(place)
            for threshold, move in cuts:
                if draw < threshold:
                    return move
        return last

    def _learn(self, state: State, asked: Turn, table: dict[State, Reply]) -> Reply:
        """Compute the replies in a state and add them to the cache."""
        row = cast(StatePolicy, self.policy).distribution(asked)
        cuts, last = cuts_of(asked.information_state, row, asked.legal_actions)
        moves = tuple((threshold, (action, state.after(action))) for threshold, action in cuts)
        table[state] = reply = (moves, (last, state.after(last)))
        return reply

    def __getstate__(self) -> dict[str, Any]:
        """Return all attributes without the cached replies, which a copy computes again."""
        return {**self.__dict__, "_table": None if self._table is None else {}}


class Table:
    """The seats of a hand, in order. None is an open seat: the caller answers for it."""

    def __init__(self, seats: Iterable[Seat | None]) -> None:
        self.seats = tuple(seats)
        taken = [(place, seat) for place, seat in enumerate(self.seats) if seat is not None]
        self.asked = [(place, seat) for place, seat in taken if seat.is_asked]
        """(index, seat) of the policies to reset at each hand."""
        self.remembering = [(place, seat) for place, seat in taken if seat.remembering is not None]
        """(index, seat) of the policies that implement `on_meta_episode_start`."""
        self.watching = [(place, seat) for place, seat in taken if seat.watcher is not None]
        """(index, seat) of the policies that implement `on_hand_end`."""


def open_table(players: int) -> Table:
    """Return a table whose seats are all open."""
    return Table((None,) * players)
