"""Opponents of one environment: made once per entry of its pool, and drawn by the pool's weights."""

from __future__ import annotations

from copy import deepcopy
from functools import lru_cache
from weakref import WeakValueDictionary

from mage_envs.core import Game, Policy, State
from mage_envs.env import OpponentSource, Seated
from mage_envs.games.table_game import TableGame
from mage_envs.hand import Reply, Seat
from mage_envs.opponents.pools import Entry, OpponentPool, PoolSpec, as_pool
from mage_envs.opponents.registry import make_opponent, portable_spec
from mage_envs.random.streams import POOL, Streams

_SEATED: WeakValueDictionary[int, SeatedOpponents] = WeakValueDictionary()
"""Map from the id of a policy object to the `SeatedOpponents` that uses it.

The holder keeps the policy alive, so an id is valid as long as its entry. When the holder is collected, its entries go.
"""


class SeatedOpponents(OpponentSource):
    """The opponents of one environment, made once per entry of its pool and drawn by weight."""

    def __init__(self, spec: PoolSpec | None, game: Game, at_once: bool = True) -> None:
        """Make the opponents of `spec`, or none if it is None (for games of one player).

        Args:
            spec: Pool of the opponents.
            at_once: False to make them at the first draw. Nobody may draw the game's own pool, whose opponents need not
                fit its options.

        Raises:
            ValueError: As `as_pool` and `make_opponent`.
        """
        if game.spec.players == 1 and spec is not None:
            raise ValueError(f"{game.spec.name} has one player, so opponent={spec!r} cannot play. Leave it out.")
        self._game = game
        self._pool: OpponentPool | None = None if spec is None else as_pool(spec)
        self._seated: list[Seated] = []
        self._by_name: dict[str, Seated] = {}
        if at_once:
            self._make_all()

    def _make_all(self) -> None:
        """Make the opponents of the pool."""
        entries = () if self._pool is None else self._pool.entries
        self._seated = [Seated("", ())] if self._pool is None else [self._seat(entry) for entry in entries]
        self._by_name |= {seated.name: seated for seated in self._seated}

    def draw(self, streams: Streams) -> Seated:
        """Return an opponent drawn by weight; a pool of one draws no random number."""
        if not self._seated:
            self._make_all()
        if self._pool is None or len(self._seated) == 1:
            return self._seated[0]
        return self._seated[self._pool.index(streams.number(POOL, hand=1))]

    def find(self, name: str) -> Seated:
        """Return the opponent of a registered name, which need not be in the pool."""
        seat = self._by_name.get(name)
        if seat is None:
            if self._pool is None:
                raise ValueError(
                    f"{self._game.spec.name} has one player, so opponent={name!r} cannot play. Leave it out."
                )
            seat = self._by_name[name] = self._seat(name)
        return seat

    def _seat(self, entry: Entry) -> Seated:
        others = self._game.spec.players - 1
        if others > 1 and not isinstance(entry, str):
            raise ValueError(
                f"{self._game.spec.name} has {others} other seats, but an instance plays only one. "
                "Pass the opponent by name."
            )
        name = entry if isinstance(entry, str) else type(entry).__name__
        if name.startswith("llm:"):
            # No table shows a host.
            name = portable_spec(name)
        return Seated(name, [Seat(self._policy(entry), name, self._table(entry)) for _ in range(others)])

    def _policy(self, entry: Entry) -> Policy:
        policy = make_opponent(entry, self._game)
        if not isinstance(entry, str):
            # One object in two environments would mix their hands, so the second environment uses a copy.
            if _SEATED.get(id(policy)) is not None:
                try:
                    policy = deepcopy(policy)
                except Exception as error:
                    raise TypeError(
                        f"Opponent {type(entry).__name__!r} already plays in another environment and cannot be copied "
                        f"({error}). Make one per environment, or pass it by name or as 'module:Class'."
                    ) from error
            _SEATED[id(policy)] = self
        return policy

    def _table(self, entry: Entry) -> dict[State, Reply] | None:
        """Return the table that caches an opponent's replies, or None if the game's states are not shared."""
        if not isinstance(self._game, TableGame):
            return None
        # A registered name without arguments always means the same policy, so all environments share one table.
        # Any other entry has a table of its own in each environment.
        if isinstance(entry, str) and ":" not in entry:
            return _table_of(entry, tuple(state for _, state in self._game.initial_states()))
        return {}


@lru_cache(maxsize=64)
def _table_of(opponent: str, states: tuple[State, ...]) -> dict[State, Reply]:
    """Return the shared table of a named opponent in the game with these first states; it starts empty."""
    return {}
