"""An opponent that is exchanged for another within the meta-episode: the control "memory of another opponent"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mage_envs.core import ExactPolicy, Game, Policy, RemembersMetaEpisode, SeesResults, TellsCalls, Turn
from opponents.registry import make_opponent, register_opponent


class Switching:
    """Plays as `first` in the episodes before `episode` (counted from 0), and as `then` from it on."""

    def __init__(self, first: Policy, then: Policy, episode: int) -> None:
        if episode < 0:
            raise ValueError(f"Opponent 'switch': episode counts from 0, got {episode}.")
        self.first = first
        self.then = then
        self.episode = episode
        self._rng: np.random.Generator
        self._started: Policy | None = None
        """The one that plays this hand, once it has been reset."""

    def reset(self, rng: np.random.Generator) -> None:
        """Starts a hand. Only the one that acts is reset, so that it draws what it would draw by itself."""
        self._rng = rng
        self._started = None

    def act(self, turn: Turn) -> str:
        policy = self.first if turn.episode < self.episode else self.then
        if policy is not self._started:
            policy.reset(self._rng)
            self._started = policy
        return policy.act(turn)

    def told_calls(self) -> Sequence[Mapping[str, Any]]:
        """Those of both, where they are language models."""
        return [
            call for policy in (self.first, self.then) if isinstance(policy, TellsCalls) for call in policy.told_calls()
        ]


class RememberingSwitching(Switching):
    """A `Switching` between two policies at least one of which remembers earlier hands."""

    def see_result(self, turn: Turn) -> None:
        """Passed on to the one that played the hand, if it looks at results."""
        policy = self.first if turn.episode < self.episode else self.then
        if isinstance(policy, SeesResults):
            policy.see_result(turn)

    def begin_meta_episode(self) -> None:
        """Passed on to those that remember."""
        for policy in (self.first, self.then):
            if isinstance(policy, RemembersMetaEpisode):
                policy.begin_meta_episode()


class ExactSwitching(Switching):
    """A `Switching` between two policies without memory whose action probabilities are known."""

    first: ExactPolicy
    then: ExactPolicy

    def distribution(self, turn: Turn) -> Mapping[str, float]:
        """That of the policy in force in `turn.episode`."""
        return (self.first if turn.episode < self.episode else self.then).distribution(turn)


@register_opponent("switch", needs_game=True, form="switch:first,then,episode")
def switch(game: Game, first: str, then: str, episode: int) -> Switching:
    """`switch:kuhn/rock,kuhn/maniac,2` plays as rock in episodes 0 and 1, as maniac from episode 2 on."""
    return switching(make_opponent(first, game), make_opponent(then, game), episode)


def switching(first: Policy, then: Policy, episode: int) -> Switching:
    """Return the switch between two policies that offers what both of them do."""
    if any(isinstance(policy, RemembersMetaEpisode | SeesResults) for policy in (first, then)):
        return RememberingSwitching(first, then, episode)
    if isinstance(first, ExactPolicy) and isinstance(then, ExactPolicy):
        return ExactSwitching(first, then, episode)
    return Switching(first, then, episode)
