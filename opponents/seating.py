"""Who sits opposite in an environment: policies made once per entry of its pool, and drawn by the pool's weights."""

from __future__ import annotations

from copy import deepcopy
from functools import lru_cache
from weakref import WeakValueDictionary

from mage_envs.core import Game, Policy, State
from mage_envs.env import Seated
from mage_envs.games.table import TableGame
from mage_envs.randomness import POOL, Streams
from mage_envs.seats import Reply, Seat
from opponents.pools import Entry, OpponentPool, PoolSpec, as_pool
from opponents.registry import make_opponent

_SEATED: WeakValueDictionary[int, SeatedOpponents] = WeakValueDictionary()
"""By the id of a policy that was given as an object: who holds it, and thereby keeps it alive."""


class SeatedOpponents:
    """Builds the opponents of one environment, once per entry of its pool, and draws among them."""

    def __init__(self, spec: PoolSpec | None, game: Game) -> None:
        """`spec` None: nobody, for games of one player. Raises what `as_pool` and `make_opponent` raise."""
        if game.facts.players == 1 and spec is not None:
            raise ValueError(f"{game.facts.name} has one player: opponent={spec!r} has no seat to take.")
        self._game = game
        self._pool: OpponentPool | None = None if spec is None else as_pool(spec)
        self._seated: list[Seated] = [Seated("", ())] if self._pool is None else []
        for entry in self._pool.entries if self._pool is not None else ():
            self._seated.append(self._seat(entry))
        self._by_name = {seated.name: seated for seated in self._seated}

    def draw(self, streams: Streams) -> Seated:
        """Draws by weight; a single opponent draws nothing."""
        if self._pool is None or len(self._seated) == 1:
            return self._seated[0]
        return self._seated[self._pool.index(streams.number(POOL, hand=1))]

    def named(self, name: str) -> Seated:
        """The opponent of that registered name, whether or not it is in the pool."""
        found = self._by_name.get(name)
        if found is None:
            if self._pool is None:
                raise ValueError(f"{self._game.facts.name} has one player: opponent={name!r} has no seat to take.")
            found = self._by_name[name] = self._seat(name)
        return found

    def _seat(self, entry: Entry) -> Seated:
        others = self._game.facts.players - 1
        if others > 1 and not isinstance(entry, str):
            raise ValueError(
                f"{self._game.facts.name} has {others} other seats: name an opponent, an instance takes one."
            )
        name = entry if isinstance(entry, str) else type(entry).__name__
        return Seated(name, [Seat(self._policy(entry), name, self._table(entry)) for _ in range(others)])

    def _policy(self, entry: Entry) -> Policy:
        policy = make_opponent(entry, self._game)
        if not isinstance(entry, str):
            if _SEATED.get(id(policy)) is not None:
                try:
                    policy = deepcopy(policy)
                except Exception as error:
                    raise TypeError(
                        f"Opponent {type(entry).__name__!r} sits in another environment already and cannot be copied "
                        f"({error}); make one for each, or give it by name or as 'module:Class'."
                    ) from error
            _SEATED[id(policy)] = self
        return policy

    def _table(self, entry: Entry) -> dict[State, Reply] | None:
        """Where replies may be kept: in games whose states are shared. A name without arguments stands for one policy,
        so that all environments share its table."""
        if not isinstance(self._game, TableGame):
            return None
        if isinstance(entry, str) and ":" not in entry:
            return _table_of(entry, tuple(state for _, state in self._game.initial_states()))
        return {}


@lru_cache(maxsize=64)
def _table_of(opponent: str, states: tuple[State, ...]) -> dict[State, Reply]:
    """The one table of the opponent that a name stands for, in the game with these first states; at first empty."""
    return {}
