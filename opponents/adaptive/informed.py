"""Policies that know or mistake the opponent, as references. They need `reveal_opponent=True`."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from mage_envs.core import Game, Policy, Turn
from mage_envs.opponents.exact.best_response import best_nonadaptive
from mage_envs.opponents.exact.tree import Rules, exact_policy
from mage_envs.opponents.pools import OpponentPool, as_pool


class KnownPolicy(Policy):
    """The best response to the opponent that the environment reveals (`Turn.opponent`)."""

    def __init__(self, game: Game, pool: OpponentPool) -> None:
        self._game = game
        self._names = [str(entry) for entry in pool.entries]
        self._prior = dict(zip(self._names, pool.weights, strict=True))
        self._assumed: str | None = None
        """Opponent that the policy expected in its last turn."""
        self._responses: dict[tuple[str, int], Policy] = {}
        """Best responses by the opponent's name and the own seat."""
        # These raise now what the first turn would raise.
        game.initial_states()
        for entry in pool.entries:
            exact_policy(entry, game)

    def reset(self, rng: np.random.Generator) -> None:
        """Start a hand; the policy draws no random numbers."""

    def act(self, turn: Turn) -> str:
        if turn.opponent not in self._names:
            raise ValueError(
                f"This policy reads the opponent from Turn.opponent, got {turn.opponent!r}. Use reveal_opponent=True "
                f"and one of: {', '.join(self._names)}."
            )
        self._assumed = self._assume(turn.opponent)
        return self._response(self._assumed, turn.player).act(turn)

    def report_belief(self) -> dict[str, float]:
        """Return certainty of the opponent that the policy expects, before its first turn the prior."""
        return self._prior if self._assumed is None else {name: float(name == self._assumed) for name in self._names}

    def _assume(self, name: str) -> str:
        """Return the opponent that the policy expects if it plays against `name`."""
        return name

    def _response(self, name: str, seat: int) -> Policy:
        key = name, seat
        if key not in self._responses:
            rules = Rules(tuple(self._game.initial_states()), self._game)
            self._responses[key] = _best_response(rules, name, seat)
        return self._responses[key]


@lru_cache(maxsize=64)
def _best_response(rules: Rules, name: str, seat: int) -> Policy:
    """Return the best response to an opponent; all policies of a process share it."""
    return best_nonadaptive(rules.game, as_pool(name), seat).policy


class WrongPolicy(KnownPolicy):
    """The best response to one other opponent of the pool: the memory of another meta-episode."""

    def __init__(self, game: Game, pool: OpponentPool) -> None:
        super().__init__(game, pool)
        if len(self._names) < 2:
            raise ValueError("The policy 'wrong' requires a pool of at least two opponents.")
        self.on_meta_episode_start()

    def on_meta_episode_start(self) -> None:
        """Forget the other opponent; the next hand draws one."""
        self._step: int | None = None

    def reset(self, rng: np.random.Generator) -> None:
        if self._step is None:
            self._step = int(rng.integers(1, len(self._names)))

    def _assume(self, name: str) -> str:
        return self._names[(self._names.index(name) + (self._step or 1)) % len(self._names)]


def build_known(game: Game, pool: str) -> KnownPolicy:
    """Return the best response to the revealed opponent of a registered pool: `known:kuhn/demo`."""
    return KnownPolicy(game, as_pool(f"pool:{pool}"))


def build_wrong(game: Game, pool: str) -> WrongPolicy:
    """Return the best response to another opponent of a registered pool: `wrong:kuhn/demo`."""
    return WrongPolicy(game, as_pool(f"pool:{pool}"))
