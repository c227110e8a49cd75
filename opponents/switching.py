"""An opponent that is replaced by another within the meta-episode: the control "memory of another opponent"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mage_envs.core import Game, Policy, Turn, has_distribution, has_memory
from mage_envs.loading.defaults import fill_in
from mage_envs.opponents.registry import make_opponent


class Switching(Policy):
    """A policy that plays as `first` in the episodes before `episode` (counted from 0), and as `then` afterwards."""

    def __init__(self, first: Policy, then: Policy, episode: int) -> None:
        """Initialize the switch.

        Args:
            first: Policy of the earlier episodes.
            then: Policy of `episode` and all later ones.
            episode: Index of the first episode that `then` plays, from 0.
        """
        if episode < 0:
            raise ValueError(f"Opponent 'switch': episode must be 0 or more, got {episode}.")
        self.first: Policy = fill_in(first, Policy)
        self.then: Policy = fill_in(then, Policy)
        self.episode = episode
        self._rng: np.random.Generator
        self._started: Policy | None = None
        """Policy that plays this hand, after its reset; None before the first turn."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        # In another process, the classes of the policies do not have the defaults yet.
        self.__dict__.update(state)
        fill_in(self.first, Policy)
        fill_in(self.then, Policy)

    def reset(self, rng: np.random.Generator) -> None:
        """Start a hand."""
        # `act` resets the active policy later: only a turn has the episode's index. The other policy draws nothing,
        # so the active one receives the same random numbers as without the switch.
        self._rng = rng
        self._started = None

    def act(self, turn: Turn) -> str:
        policy = self.first if turn.episode < self.episode else self.then
        if policy is not self._started:
            policy.reset(self._rng)
            self._started = policy
        return policy.act(turn)

    def model_calls(self) -> Sequence[Mapping[str, Any]]:
        """Return the recorded calls of both policies, if they are language models."""
        return [call for policy in (self.first, self.then) for call in policy.model_calls()]


class RememberingSwitching(Switching):
    """A `Switching` between two policies, at least one of which remembers earlier hands."""

    def on_hand_end(self, turn: Turn) -> None:
        """Forward the result to the policy that played the hand."""
        (self.first if turn.episode < self.episode else self.then).on_hand_end(turn)

    def on_meta_episode_start(self) -> None:
        """Forward the call to both policies."""
        self.first.on_meta_episode_start()
        self.then.on_meta_episode_start()


class ExactSwitching(Switching):
    """A `Switching` between two policies without memory that have exact action probabilities."""

    def distribution(self, turn: Turn) -> Mapping[str, float]:
        """Return the distribution of the policy that plays `turn.episode`."""
        return (self.first if turn.episode < self.episode else self.then).distribution(turn)


def switch(game: Game, first: str, then: str, episode: int) -> Switching:
    """Return an opponent that switches: `switch:kuhn/rock,kuhn/maniac,2` is rock in episodes 0 and 1, then maniac.

    Args:
        first: Specification of the opponent in the earlier episodes.
        then: Specification of the opponent from `episode` on.
        episode: Index of the first episode that `then` plays, from 0.
    """
    return switching(make_opponent(first, game), make_opponent(then, game), episode)


def switching(first: Policy, then: Policy, episode: int) -> Switching:
    """Return the switch between two policies, with the methods that they support.

    Args:
        first: Policy of the earlier episodes.
        then: Policy of `episode` and all later ones.
        episode: Index of the first episode that `then` plays, from 0.
    """
    # The methods that a class overrides say what its policies can do, so each combination needs a class of its own.
    switched = Switching(first, then, episode)
    parts = switched.first, switched.then
    # Memory is checked first: a policy that remembers has no exact distribution over the turns of one hand.
    if any(map(has_memory, parts)):
        return RememberingSwitching(first, then, episode)
    return ExactSwitching(first, then, episode) if all(map(has_distribution, parts)) else switched
