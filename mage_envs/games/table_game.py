"""Games that are small enough for a table: each state is built once and shared, and a move is one dict lookup."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, Self

import numpy as np

from mage_envs.core import Game, HandResult, IllegalAction, State
from mage_envs.info import PRIVATE
from mage_envs.random.streams import Streams

LONGEST = 100
"""Maximum characters of an action. A longer text is illegal."""


class TableState(State):
    """A shared state of a small game.

    Args:
        player: Player to act, or None if the hand is over.
        keys: Information state of each player.
        origin: Module-level function and its arguments. It returns this same state, and a pickle stores only that.
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
        self._infos: dict[int, dict[str, Any]] = {}
        self._results: dict[int, HandResult] = {}
        self._accepted: dict[str, tuple[str, TableState]] = {}
        """Accepted spelling to (canonical text, next state)."""

    def connect(self, children: Mapping[str, TableState], spellings: Mapping[str, Sequence[str]] = {}) -> None:
        """Set the moves of this state.

        Args:
            children: Canonical action text to the next state.
            spellings: Canonical action text to its other accepted texts, in lower case.
        """
        self.legal_actions = tuple(children)
        accepted: dict[str, tuple[str, TableState]] = {}
        for action, child in children.items():
            for text in (action, *spellings.get(action, ())):
                accepted[text] = (action, child)
        # Set at once: another thread that finds it must find all of it.
        self._accepted = accepted

    def observation(self, seat: int) -> str:
        return self.observations[seat]

    def information_state(self, seat: int) -> str:
        return self.keys[seat]

    def info(self, seat: int) -> dict[str, Any]:
        info = self._infos.get(seat)
        if info is None:
            info = super().info(seat)
            # A caller copies only the outer dict. Two callers would share a nested dict of metrics.
            if "metrics" not in info[PRIVATE]:
                self._infos[seat] = info
        return info

    def result(self, seat: int) -> HandResult:
        result = self._results.get(seat)
        if result is None:
            result = self._results[seat] = super().result(seat)
        return result

    def move(self, action: str) -> tuple[str, TableState]:
        accepted = self._accepted.get(action) or self._accepted.get(_normal(action))
        if accepted is None:
            raise IllegalAction(action, self.legal_actions)
        return accepted

    def after(self, action: str) -> TableState:
        return self.move(action)[1]

    def canonical(self, action: str) -> str:
        accepted = self._accepted.get(action) or self._accepted.get(_normal(action))
        return accepted[0] if accepted else action

    # Copies are the state itself: no move changes it, and `is` comparisons and tables by identity keep working.
    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    # A pickle of the children would hold the whole tree below this state.
    def __reduce__(self) -> tuple[Any, ...]:
        return self._origin


class GrownState(TableState):
    """A shared state that builds its next states at the first move from it, for games of many states.

    Args:
        player: Player to act, or None if the hand is over.
        keys: Information state of each player.
        legal_actions: Canonical texts of the legal actions.
        origin: First state and the moves since. A pickle stores only that.
    """

    spellings: Mapping[str, Sequence[str]] = {}
    """Action to its other accepted texts, in lower case."""

    def __init__(
        self,
        player: int | None,
        returns: tuple[float, ...],
        *,
        keys: tuple[str, ...],
        legal_actions: tuple[str, ...],
        origin: Origin,
    ) -> None:
        super().__init__(player, returns, observations=(), keys=keys, origin=(replay_moves, tuple(origin)))
        # `connect` would set the legal actions only at the first move, but players see them before.
        self.legal_actions = legal_actions
        self.origin = origin
        self._observed: dict[int, str] = {}
        """Seat to its observation, built at the first request."""

    @abstractmethod
    def follower(self, action: str) -> TableState:
        """Return a new state: the one after a legal action."""

    @abstractmethod
    def tell(self, seat: int) -> str:
        """Return the observation of that player. `observation` caches it."""

    def observation(self, seat: int) -> str:
        text = self._observed.get(seat)
        if text is None:
            text = self._observed[seat] = self.tell(seat)
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
    """The first state of a hand and the moves since."""

    make_first: Callable[..., TableState]
    """Module-level function that returns a first state. Equal arguments must return the same object."""
    arguments: tuple[Any, ...]
    moves: tuple[str, ...] = ()

    def then(self, action: str) -> Origin:
        """Return the origin of the state after one more move."""
        return self._replace(moves=(*self.moves, action))


def replay_moves(
    make_first: Callable[..., TableState], arguments: tuple[Any, ...], moves: tuple[str, ...]
) -> TableState:
    """Return the shared state after these moves.

    Args:
        make_first: Function that returns the first state.
        arguments: Arguments of `make_first`.
        moves: Actions since the first state, in order.
    """
    state = make_first(*arguments)
    for action in moves:
        state = state.after(action)
    return state


def _normal(action: str) -> str:
    """Return an action in the spelling of the tables: stripped and in lower case."""
    # No table has the empty text, so an over-long action is illegal.
    return action.strip().lower() if len(action) <= LONGEST else ""


class TableGame(Game):
    """A game whose first states are `TableState`s. A subclass passes them with their probabilities."""

    def __init__(self, states: Sequence[tuple[float, TableState]]) -> None:
        self._states = tuple(states)
        self._firsts = tuple(state for _, state in states)
        # The last bound is left out: rounding may make the sum less than 1, and no number may exceed all bounds.
        self._bounds = tuple(accumulate(chance for chance, _ in states[:-1]))
        """Upper bounds of uniform numbers: a number from bound i - 1 to bound i selects first state i."""

    def initial_states(self) -> tuple[tuple[float, TableState], ...]:
        return self._states

    def initial_state(self, rng: np.random.Generator) -> TableState:
        """Return the first state that one uniform number selects, by the cumulative probabilities."""
        return self._firsts[bisect(self._bounds, rng.random())]

    def first_state(self, streams: Streams, role: int, episode: int, hand: int) -> TableState:
        """Return the first state that a number of a keyed stream selects. It is faster than `initial_state`.

        If there is only one first state, no number is drawn.

        Args:
            role: Role of the stream, such as `GAME`.
            hand: Index of the hand in the episode.
        """
        if not self._bounds:
            return self._firsts[0]
        return self._firsts[bisect(self._bounds, streams.number(role, episode, hand))]


class TableSeries(TableGame):
    """A series of tasks from a table: every episode of a meta-episode plays another task.

    All tasks are equally likely. A task occurs again only after all others have occurred.
    """

    def __init__(self, tasks: Mapping[str, Sequence[tuple[float, TableState]]]) -> None:
        """Build the game.

        Args:
            tasks: Name of each task to its first states with their probabilities.
        """
        self.names = tuple(tasks)
        """Names of the tasks, for tables."""
        self.tasks = tuple(map(tuple, tasks.values()))
        super().__init__([(chance / len(tasks), state) for task in self.tasks for chance, state in task])

    def series_state(self, rng: np.random.Generator, number: int) -> TableState:
        count = len(self.tasks)
        # One permutation for each round through all tasks, and one number for the deal of each of its tasks.
        rounds = [(rng.permutation(count), rng.random(count)) for _ in range(number // count + 1)]
        order, draws = rounds[-1]
        task, position = self.tasks[order[number % count]], number % count
        bounds = [*accumulate(chance for chance, _ in task[:-1])]
        state: TableState = task[bisect(bounds, draws[position])][1]
        return state
