"""One pairing of a tournament: two policies play the same deals from both seats; a function of names and settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeVar

import numpy as np

from benchmarks.evaluation.scores import AtEpisode
from benchmarks.tournaments.settings import Settings
from mage_envs.core import ExactPolicy, Policy, RemembersMetaEpisode, SeesResults, StatePolicy, TextGame, Turn
from mage_envs.randomness import GAME, OPPONENT
from opponents import DeclaresDeterminism, make_opponent
from opponents.exact import policy_value
from opponents.exact.tree import Walkable

T = TypeVar("T")
_IDLE = np.random.Generator(np.random.PCG64(0))
"""Handed to policies that declare never to use it."""


@dataclass(frozen=True)
class Failure:
    """Why a pairing has no result."""

    policies: tuple[str, ...]
    """The one that failed, or those of which one did."""
    error: str
    """The exception's type."""
    message: str
    """One line."""


class PolicyFailure(RuntimeError):
    """A policy that could not be made, raised, or answered with an illegal action."""

    def __init__(self, policy: str, error: Exception) -> None:
        super().__init__(f"{policy!r} failed: {error}")
        self.failure = Failure((policy,), type(error).__name__, " ".join(str(error).split()))


@dataclass(frozen=True)
class Pairing:
    """How two policies did against each other."""

    names: tuple[str, str]
    returns: np.ndarray
    """Mean return per hand of each match, shape (deals, 2 seatings, 2 policies). Seating 0: `names[0]` is first."""
    exact: np.ndarray | None = None
    """The expectation of `returns`, shape (2 seatings, 2 policies), where it is known exactly."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        exact = None if self.exact is None else self.exact.tolist()
        return {"policies": list(self.names), "exact": exact, "returns": self.returns.tolist()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Pairing:
        """What `to_json` gave."""
        exact = None if data["exact"] is None else np.array(data["exact"], float)
        first, second = data["policies"]
        return cls((first, second), np.array(data["returns"], float), exact)


def play_pairing(settings: Settings, names: tuple[str, str]) -> Pairing | Failure:
    """Plays one pairing. The result depends on the rules in `settings` and on the names, not on who else takes part.

    Deal d has the same chance in all pairings and in both seatings, as far as the game asks for it. Each policy draws
    from a stream of its own for each hand, and begins a meta-episode with each match.
    """
    game = settings.make_game()
    try:
        policies = [_made(name, game) for name in names]
        exact = _exact(settings, game, names, policies) if settings.exact else None
        match = _Match(settings, game, names, policies)
        returns = [[match.play(deal, seating) for seating in (0, 1)] for deal in range(settings.deals)]
    except PolicyFailure as error:
        return error.failure
    return Pairing(names, np.array(returns, float), exact)


def _made(name: str, game: TextGame) -> Policy:
    return _blamed(name, lambda: make_opponent(name, game))


def _blamed(name: str, call: Callable[[], T]) -> T:
    try:
        return call()
    except Exception as error:  # a policy may raise anything; it is filed under the policy's name
        raise PolicyFailure(name, error) from error


class _Match:
    """Plays the matches of a pairing, one after the other."""

    def __init__(self, settings: Settings, game: TextGame, names: tuple[str, str], policies: Sequence[Policy]) -> None:
        self._settings = settings
        self._game = game
        self._names = names
        self._policies = policies
        self._draws = [not (isinstance(policy, DeclaresDeterminism) and policy.deterministic) for policy in policies]
        self._remembering = [policy if isinstance(policy, RemembersMetaEpisode) else None for policy in policies]
        self._watching = [policy if isinstance(policy, SeesResults) else None for policy in policies]
        self._key = int.from_bytes(sha256("\0".join(names).encode()).digest()[:8])

    def play(self, deal: int, seating: int) -> list[float]:
        """The mean return per hand of each policy; `policies[seating]` has the first seat."""
        order = (seating, 1 - seating)
        for index in order:
            policy = self._remembering[index]
            if policy is not None:
                _blamed(self._names[index], policy.begin_meta_episode)
        totals = [0.0, 0.0]
        for episode in range(self._settings.episodes):
            self._hand(deal, seating, episode, order)
            for seat, value in enumerate(self._game.returns()):
                totals[order[seat]] += value
        return [total / self._settings.episodes for total in totals]

    def _hand(self, deal: int, seating: int, episode: int, order: tuple[int, int]) -> None:
        game = self._game
        game.reset(self._stream(GAME, deal, episode))
        acting = order[0]
        try:
            for acting in order:
                key = (OPPONENT, self._key, acting, deal, seating, episode)
                self._policies[acting].reset(self._stream(*key) if self._draws[acting] else _IDLE)
            while (player := game.current_player()) is not None:
                acting = order[player]
                game.apply(self._policies[acting].act(game.turn(player, episode)))
            for seat, acting in enumerate(order):
                watching = self._watching[acting]
                if watching is not None:
                    watching.see_result(game.turn(seat, episode))
        except Exception as error:  # a policy may raise anything; it is filed under the policy's name
            raise PolicyFailure(self._names[acting], error) from error

    def _stream(self, *key: int) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(self._settings.seed, spawn_key=key)))


class _Blamed(AtEpisode):
    """One whose failures name it."""

    def __init__(self, name: str, policy: ExactPolicy, episode: int) -> None:
        super().__init__(policy, episode)
        self._name = name

    def distribution(self, turn: Turn) -> Mapping[str, float]:
        return _blamed(self._name, lambda: super(_Blamed, self).distribution(turn))


def _exact(settings: Settings, game: TextGame, names: tuple[str, str], policies: Sequence[Policy]) -> np.ndarray | None:
    """Expected mean return per hand, shape (2 seatings, 2 policies); None where it is not known."""
    known = [policy for policy in policies if isinstance(policy, ExactPolicy)]
    if len(known) < 2 or not isinstance(game, Walkable):
        return None
    # What follows from the information state alone is the same in all episodes.
    varies = not all(isinstance(policy, StatePolicy) for policy in policies)
    values = np.zeros((2, 2))
    episodes = range(settings.episodes if varies else 1)
    for episode in episodes:
        first, second = (_Blamed(name, policy, episode) for name, policy in zip(names, known, strict=True))
        values += [policy_value(game, (first, second)), policy_value(game, (second, first))[::-1]]
    return values / len(episodes)
