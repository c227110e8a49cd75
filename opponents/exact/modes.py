"""The modes of a pool: the ways of playing between which a learner cannot tell in advance, with their memories.

An opponent has one mode, or several if it may change between episodes (`Hazard`). A mode may have a memory
(`LearningPolicy`). Each memory follows from what both players saw, so a learner knows the memory that every mode has by
now. What it does not know is the mode itself. The state of its problem is thus the memory of each mode, and the
probability of each mode (its belief).

The memory of a mode that is excluded for good is dropped, because it no longer matters. That keeps the number of states
small.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mage_envs.core import Game, Policy, Turn
from mage_envs.hand import cuts_of
from mage_envs.opponents.exact.tree import NotExact, in_episode, require_exact
from mage_envs.opponents.learning.hazard import Hazard
from mage_envs.opponents.learning.policy import LearningPolicy
from mage_envs.opponents.pools import OpponentPool
from mage_envs.opponents.registry import make_opponent
from mage_envs.tree import Node

Floats = NDArray[np.float64]
Memories = tuple[Hashable, ...]
"""Memory of each mode, None if the mode is excluded; empty if no opponent of the pool learns or changes."""


class Remembering(Policy):
    """A `LearningPolicy` with a fixed memory and episode."""

    # `distribution_given` may use what follows from the information state, which is the same throughout a hand.
    follows_information_state = True

    def __init__(self, policy: LearningPolicy, memory: Hashable, episode: int) -> None:
        self._policy, self._memory, self._episode = policy, memory, episode
        self._rows: dict[tuple[int, str], Mapping[str, float]] = {}

    def reset(self, rng: np.random.Generator) -> None:
        raise TypeError("A policy with a fixed memory is only for exact values.")

    def act(self, turn: Turn) -> str:
        raise TypeError("A policy with a fixed memory is only for exact values.")

    def distribution(self, turn: Turn) -> Mapping[str, float]:
        """Return the distribution under the fixed memory."""
        key = turn.player, turn.information_state
        if key not in self._rows:
            row = self._policy.distribution_given(turn._replace(episode=self._episode), self._memory)
            # Called for its checks alone: it raises unless the row is a distribution over the legal actions.
            cuts_of(turn.information_state, row, turn.legal_actions)
            self._rows[key] = row
        return self._rows[key]


class Modes:
    """The modes of a pool's opponents: N ways of playing, with the probabilities of changes between episodes."""

    def __init__(self, game: Game, pool: OpponentPool, *, stationary: bool = False) -> None:
        """Collect the modes.

        Args:
            stationary: True for a belief that nobody changes: every mode plays each episode as it plays the first one,
                with its first memory, and no opponent changes its mode.

        Raises:
            NotExact: If an opponent has no exact probabilities.
        """
        self.stationary = stationary
        policies: list[Policy] = []
        prior: list[float] = []
        sizes: list[int] = []
        hazards: list[float] = []
        for entry, weight in zip(pool.entries, pool.weights, strict=True):
            opponent = make_opponent(entry, game)
            parts = opponent.parts if isinstance(opponent, Hazard) else (opponent,)
            policies += [part if isinstance(part, LearningPolicy) else require_exact(part, entry) for part in parts]
            prior += [weight / len(parts)] * len(parts)
            sizes.append(len(parts))
            hazards.append(opponent.hazard if isinstance(opponent, Hazard) and not stationary else 0.0)
        self.policies: Sequence[Policy] = policies
        self.prior: Sequence[float] = tuple(prior)
        """Probability of each mode before the first hand, (N,)."""
        self.sizes: Sequence[int] = tuple(sizes)
        """Number of modes of each opponent."""
        self.switches: Floats | None = self._transition(hazards) if any(hazards) else None
        """Probability of each mode after each mode between two episodes, (N, N); None if no opponent changes."""
        self.learns = any(isinstance(policy, LearningPolicy) for policy in policies) or self.switches is not None
        """True if the state of a learner's problem is more than a belief."""
        self.start: Memories = tuple(_start(policy) for policy in policies) if self.learns else ()
        """Memories before the first hand."""
        self._frozen: dict[tuple[int, Hashable, int], Policy] = {}
        """Modes with a fixed memory and episode."""
        players = game.spec.players
        if self.learns and players != 2:
            raise NotExact(f"{game.title} has {players} seats. Exact values against opponents that learn require 2.")

    def _transition(self, hazards: Sequence[float]) -> Floats:
        count = len(self.policies)
        matrix, start = np.eye(count), 0
        for size, hazard in zip(self.sizes, hazards, strict=True):
            block = slice(start, start + size)
            matrix[block, block] = (1 - hazard) * np.eye(size) + hazard / size
            start += size
        return matrix

    def marginal(self, belief: Floats) -> Floats:
        """Return the probability of each opponent, given that of each mode."""
        if len(self.sizes) == len(belief):
            return belief
        return np.array([part.sum() for part in np.split(belief, np.cumsum(self.sizes)[:-1])])

    def after_episode(self, belief: Floats, episodes: int = 1) -> Floats:
        """Return the belief after some episodes end, from that before."""
        if self.switches is not None:
            belief = belief @ np.linalg.matrix_power(self.switches, episodes)
        return belief

    def can_follow(self, possible: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return a mask of the modes that can play later hands, from a mask of those that can play this one."""
        return possible if self.switches is None else possible @ (self.switches > 0)

    def mask(self, memories: Memories, belief: Sequence[float] | Floats) -> Memories:
        """Return the memories without those of modes that are excluded for good."""
        if not memories:
            return ()
        possible = self.can_follow(np.asarray(belief) > 0)
        return tuple(memory if able else None for memory, able in zip(memories, possible, strict=True))

    def opponents(self, memories: Memories, episode: int) -> list[Policy | None]:
        """Return each mode as it plays a hand of an episode, None for those that are excluded."""
        episode = 0 if self.stationary else episode
        if not memories:
            return [in_episode(policy, episode) for policy in self.policies]
        return [
            None if memory is None else self._in_hand(mode, memory, episode) for mode, memory in enumerate(memories)
        ]

    def _in_hand(self, mode: int, memory: Hashable, episode: int) -> Policy:
        key = mode, memory, episode
        if key not in self._frozen:
            policy = self.policies[mode]
            if isinstance(policy, LearningPolicy):
                self._frozen[key] = Remembering(policy, memory, episode)
            else:
                self._frozen[key] = in_episode(policy, episode)
        return self._frozen[key]

    def step(self, mode: int, memory: Hashable, node: Node, seat: int, episode: int) -> Hashable:
        """Return the memory of a mode after a hand.

        Args:
            memory: Memory before the hand.

        Raises:
            TypeError: If the memory is None or cannot be hashed.
        """
        policy = self.policies[mode]
        if not isinstance(policy, LearningPolicy):
            return memory
        next_memory = policy.step(memory, end_turn(node, seat, 0 if self.stationary else episode))
        try:
            # A set accepts only what can be hashed, also within a tuple.
            _ = {next_memory}
        except TypeError:
            next_memory = None
        if next_memory is None:
            raise TypeError(f"{type(policy).__name__}.step must return a hashable memory that is not None, as a tuple.")
        return next_memory

    def restart(self, memories: Memories) -> Memories:
        """Return the memories after the end of an episode. Only a stationary belief starts them again."""
        if not self.stationary:
            return memories
        return tuple(None if memory is None else first for memory, first in zip(memories, self.start, strict=True))


def end_turn(node: Node, seat: int, episode: int) -> Turn:
    """Return the turn of a seat at the end of a hand, as `on_hand_end` receives it."""
    state = node.state
    return Turn(
        player=seat,
        observation=state.observation(seat),
        legal_actions=(),
        information_state=state.information_state(seat),
        episode=episode,
        task_id=state.task_id,
        success=state.won(seat),
    )


def _start(policy: Policy) -> Hashable:
    return policy.start if isinstance(policy, LearningPolicy) else ()
