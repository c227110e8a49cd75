"""Games small enough to be a table: every state is made once and shared, and a move is one dict lookup."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, Self

import numpy as np

from mage_envs.core import Game, HandResult, IllegalAction, State
from mage_envs.randomness import Streams

LONGEST = 100
"""Characters of an action; over-long text is none."""


class TableState(State):
    """One shared state; `observations` and `keys` (information states) have one text per player.

    `origin` is a module-level function with its arguments that gives this very state again: what a pickle holds.
    """

    def __init__(
        self,
        player: int | None,
        returns: tuple[float, ...],
        *,
        observations: tuple[str, ...],
        keys: tuple[str, ...],
        origin: tuple[Callable[..., State], tuple[Any, ...]],
    ) -> None:
        self.player: int | None = player
        self.returns: tuple[float, ...] = returns
        self.observations = observations
        self.keys = keys
        self.legal_actions: tuple[str, ...] = ()
        self._origin = origin
        self._told_info: dict[int, dict[str, Any]] = {}
        self._results: dict[int, HandResult] = {}
        self._accepted: dict[str, tuple[str, TableState]] = {}
        """Every accepted spelling to (canonical text, next state)."""

    def connect(self, children: Mapping[str, TableState], spellings: Mapping[str, Sequence[str]] = {}) -> None:
        """Sets the moves; `spellings` lists further accepted texts of a canonical one, in lower case."""
        self.legal_actions = tuple(children)
        for action, child in children.items():
            for text in (action, *spellings.get(action, ())):
                self._accepted[text] = (action, child)

    def observation(self, seat: int) -> str:
        return self.observations[seat]

    def information_state(self, seat: int) -> str:
        return self.keys[seat]

    def told(self, seat: int) -> dict[str, Any]:
        known = self._told_info.get(seat)
        if known is None:
            known = super().told(seat)
            if "metrics" not in known:  # a dict, which each caller must have to itself
                self._told_info[seat] = known
        return known

    def result(self, seat: int) -> HandResult:
        known = self._results.get(seat)
        if known is None:
            known = self._results[seat] = super().result(seat)
        return known

    def move(self, action: str) -> tuple[str, TableState]:
        found = self._accepted.get(action) or self._accepted.get(_normal(action))
        if found is None:
            raise IllegalAction(action, self.legal_actions)
        return found

    def after(self, action: str) -> TableState:
        return self.move(action)[1]

    def canonical(self, action: str) -> str:
        found = self._accepted.get(action) or self._accepted.get(_normal(action))
        return found[0] if found else action

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return self._origin


class GrownState(TableState):
    """A shared state whose followers are made when somebody first moves from it, in games of many states.

    `first(*arguments)` gives the state that the moves so far began at: a pickle holds just that.
    """

    spellings: Mapping[str, Sequence[str]] = {}
    """Further accepted texts of an action, in lower case."""

    def __init__(
        self,
        player: int | None,
        returns: tuple[float, ...],
        *,
        keys: tuple[str, ...],
        legal_actions: tuple[str, ...],
        origin: Origin,
    ) -> None:
        super().__init__(player, returns, observations=(), keys=keys, origin=(grown, tuple(origin)))
        self.legal_actions = legal_actions
        self.origin = origin
        self._told: dict[int, str] = {}
        """Observations by seat, made when they are asked for."""

    @abstractmethod
    def follower(self, action: str) -> TableState:
        """The state after a legal action, made anew."""

    @abstractmethod
    def tell(self, seat: int) -> str:
        """What that player sees."""

    def observation(self, seat: int) -> str:
        text = self._told.get(seat)
        if text is None:
            text = self._told[seat] = self.tell(seat)
        return text

    def move(self, action: str) -> tuple[str, TableState]:
        self._grow()
        return super().move(action)

    def canonical(self, action: str) -> str:
        self._grow()
        return super().canonical(action)

    def _grow(self) -> None:
        if self.legal_actions and not self._accepted:
            self.connect({action: self.follower(action) for action in self.legal_actions}, self.spellings)


class Origin(NamedTuple):
    """Where a state of a game comes from."""

    first: Callable[..., TableState]
    """A module-level function that gives a first state, always the same one."""
    arguments: tuple[Any, ...]
    moves: tuple[str, ...] = ()

    def then(self, action: str) -> Origin:
        """One move later."""
        return self._replace(moves=(*self.moves, action))


def grown(first: Callable[..., TableState], arguments: tuple[Any, ...], moves: tuple[str, ...]) -> TableState:
    """The shared state after these moves."""
    state = first(*arguments)
    for action in moves:
        state = state.after(action)
    return state


def _normal(action: str) -> str:
    """The spelling that tables know: stripped, lower case."""
    return action.strip().lower() if len(action) <= LONGEST else ""


class TableGame(Game):
    """A game whose first states are `TableState`s; a subclass passes them, with their probabilities."""

    def __init__(self, states: Sequence[tuple[float, TableState]]) -> None:
        self._states = tuple(states)
        self._firsts = tuple(state for _, state in states)
        self._bounds = tuple(accumulate(chance for chance, _ in states[:-1]))
        """Uniform numbers from bound i - 1 to bound i deal state i."""

    def initial_states(self) -> tuple[tuple[float, TableState], ...]:
        return self._states

    def initial_state(self, rng: np.random.Generator) -> TableState:
        """One uniform number: each first state has its probability's share, in order."""
        return self._firsts[bisect(self._bounds, rng.random())]

    def first_state(self, streams: Streams, role: int, episode: int, hand: int) -> TableState:
        """The same by the first number of a stream, which is taken only where there is a choice."""
        if not self._bounds:
            return self._firsts[0]
        return self._firsts[bisect(self._bounds, streams.number(role, episode, hand))]
