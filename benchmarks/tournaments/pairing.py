"""One pairing of a tournament: two policies play the same deals from both seats, determined by names and settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeVar

import numpy as np

from mage_envs.benchmarks.tournaments.tournament_settings import Settings
from mage_envs.core import Game, Policy, State, Turn, is_state_policy
from mage_envs.exceptions import message_of, stops
from mage_envs.games.table_game import TableGame
from mage_envs.hand import Hand, OpponentFailure, Reply, Seat, Table
from mage_envs.opponents import make_opponent
from mage_envs.opponents.exact import policy_value
from mage_envs.opponents.exact.tree import AtEpisode, is_exact
from mage_envs.processes.watchdog import CallTimeout, Watchdog
from mage_envs.random.streams import Streams
from mage_envs.tree import is_enumerable

T = TypeVar("T")


@dataclass(frozen=True)
class PairingFailure:
    """Reason why a pairing has no result."""

    policies: tuple[str, ...]
    """Name of the policy that failed, or both names if it is unknown which of them failed."""
    error: str
    """Type of the exception, or `Hang` or `WorkerDied`."""
    message: str
    """Message in one line."""


class PolicyFailure(RuntimeError):
    """Failure of a policy: it could not be made, it raised, or it returned an illegal action."""

    def __init__(self, policy: str, error: BaseException) -> None:
        message = message_of(error)
        super().__init__(f"{policy!r} failed: {message}")
        self.failure = PairingFailure((policy,), type(error).__name__, " ".join(message.split()))


@dataclass(frozen=True)
class Pairing:
    """Results of two policies against each other."""

    names: tuple[str, str]
    returns: np.ndarray
    """Mean return per hand of each match, shape (deals, 2 seatings, 2 policies). In seating 0, `names[0]` is first."""
    exact: np.ndarray | None = None
    """Expectation of `returns`, shape (2 seatings, 2 policies), or None if it is not known exactly."""

    def to_json(self) -> dict[str, Any]:
        """Return the pairing as plain JSON values."""
        exact = None if self.exact is None else self.exact.tolist()
        return {"policies": list(self.names), "exact": exact, "returns": self.returns.tolist()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Pairing:
        """Return the pairing from the values of `to_json`."""
        exact = None if data["exact"] is None else np.array(data["exact"], float)
        first_name, second_name = data["policies"]
        return cls((first_name, second_name), np.array(data["returns"], float), exact)


class PairingRun:
    """One pairing, played in parts. The first part makes the policies and exact values; each further part plays a deal.

    The result depends on the rules in `settings` and on the two names, not on the other policies. Deal d uses the same
    chance stream in all pairings and both seatings. Each policy draws from its own stream, keyed by names, deal,
    seating and episode. Each match is a new meta-episode for both policies.
    """

    def __init__(self, settings: Settings, names: tuple[str, str]) -> None:
        self.names = names
        self._settings = settings
        # A list that the seats share and overwrite, so that after a timeout the policy that was running is known.
        self._asked: list[str] = []
        """Name of the policy that is running."""
        self._match: _Match | None = None
        self._exact: np.ndarray | None = None
        self._returns: list[list[list[float]]] = []

    def go_on(self, watch: Watchdog | None = None, deadline: float = 0.0) -> Pairing | PairingFailure | None:
        """Play the next part. Return the outcome after the last part, else None.

        Args:
            watch: Watch that interrupts a part at the timeout, or None for no timeout.
            deadline: Timeout per part in seconds; 0 disables it.
        """
        try:
            if watch is None:
                self._play_part()
            else:
                watch.call(self._play_part, deadline=deadline, describe=lambda: " against ".join(self.names))
        except PolicyFailure as error:
            return error.failure
        except CallTimeout as late:
            return PairingFailure(tuple(self._asked or dict.fromkeys(self.names)), "Hang", str(late))
        if len(self._returns) < self._settings.deals:
            return None
        return Pairing(self.names, np.array(self._returns, float), self._exact)

    def _play_part(self) -> None:
        if self._match is not None:
            # Both seatings are one part, because a deal counts only as a whole.
            deal = len(self._returns)
            self._returns.append([self._match.play(deal, seating) for seating in (0, 1)])
            return
        game = self._settings.make_game()
        policies = [self._make_policy(name, game) for name in self.names]
        if self._settings.exact:
            self._exact = _exact(self._settings, game, self.names, policies)
        self._match = _Match(
            settings=self._settings, game=game, names=self.names, policies=policies, current_names=self._asked
        )

    def _make_policy(self, name: str, game: Game) -> Policy:
        self._asked[:] = [name]
        policy = _call_policy(name, lambda: make_opponent(name, game))
        self._asked.clear()
        return policy


def _call_policy(name: str, call: Callable[[], T]) -> T:
    try:
        return call()
    # BaseException: a policy may raise anything, and its name belongs into the report.
    except BaseException as error:
        # Ctrl-C and timeouts are not the policy's failure.
        if stops(error):
            raise
        raise PolicyFailure(name, error) from error


class _Match:
    """The matches of a pairing, played one after the other."""

    def __init__(
        self,
        settings: Settings,
        game: Game,
        names: tuple[str, str],
        policies: Sequence[Policy],
        current_names: list[str],
    ) -> None:
        self._names = names
        self._seed = settings.seed
        self._episodes = settings.episodes
        self._chance = Streams(settings.seed)
        # A digest, because Python's hash() of a string differs between processes.
        self._key = int.from_bytes(sha256("\0".join(names).encode()).digest()[:8])
        self._hand = Hand(game)
        seats = []
        for name, policy in zip(names, policies, strict=True):
            # States of a table game are shared, so that a policy's replies to them can be cached.
            table: dict[State, Reply] | None = {} if isinstance(game, TableGame) else None
            seats.append(_NamedSeat(policy, name, table, current_names))
        self._tables = [Table(seats), Table(reversed(seats))]

    def play(self, deal: int, seating: int) -> list[float]:
        """Play a match and return each policy's mean return per hand. Policy number `seating` has the first seat."""
        order, table = (seating, 1 - seating), self._tables[seating]
        draws = Streams(self._seed, self._key, deal, seating)
        totals = [0.0, 0.0]
        try:
            self._hand.on_meta_episode_start(table)
            for episode in range(self._episodes):
                self._hand.begin_episode(self._chance, draws, episode=episode)
                # The deal's number is the hand's number, so that chance depends on seed, episode and deal alone.
                self._hand.deal(table, deal)
                for index, value in zip(order, self._hand.state.returns, strict=True):
                    totals[index] += value
        except OpponentFailure as failure:
            name, cause = self._names[order[failure.seat]], failure.__cause__
            raise PolicyFailure(name, cause or failure) from cause
        return [total / self._episodes for total in totals]


class _NamedSeat(Seat):
    """Seat that writes its policy's name into `asked` before each call of the policy."""

    def __init__(self, policy: Policy, name: str, table: dict[State, Reply] | None, current_names: list[str]) -> None:
        super().__init__(policy, name, table)
        self._asked, self._names = current_names, [name]

    def on_meta_episode_start(self) -> None:
        self._asked[:] = self._names
        super().on_meta_episode_start()

    def reset(self, rng: np.random.Generator) -> None:
        self._asked[:] = self._names
        super().reset(rng)

    def on_hand_end(self, turn: Turn) -> None:
        self._asked[:] = self._names
        super().on_hand_end(turn)

    def move(self, state: State, index: int, hand: Hand) -> tuple[str, State]:
        self._asked[:] = self._names
        return super().move(state, index, hand)


class _Blamed(AtEpisode):
    """Exact policy at one episode, whose failures carry its name."""

    def __init__(self, name: str, policy: Policy, episode: int) -> None:
        super().__init__(policy, episode)
        self._name = name

    def distribution(self, turn: Turn) -> Mapping[str, float]:
        return _call_policy(self._name, lambda: super(_Blamed, self).distribution(turn))


def _exact(settings: Settings, game: Game, names: tuple[str, str], policies: Sequence[Policy]) -> np.ndarray | None:
    """Return the expected mean return per hand, shape (2 seatings, 2 policies), or None if it is not known."""
    exact_policies = [policy for policy in policies if is_exact(policy)]
    if len(exact_policies) < 2 or not is_enumerable(game):
        return None
    # Policies that depend only on the information state play all episodes alike, so one episode is enough.
    varies = not all(map(is_state_policy, policies))
    values = np.zeros((2, 2))
    episodes = range(settings.episodes if varies else 1)
    for episode in episodes:
        first_policy, second_policy = (
            _Blamed(name, policy, episode) for name, policy in zip(names, exact_policies, strict=True)
        )
        values += [
            policy_value(game, (first_policy, second_policy)),
            policy_value(game, (second_policy, first_policy))[::-1],
        ]
    return values / len(episodes)
