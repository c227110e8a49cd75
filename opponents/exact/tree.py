"""Payoffs at the ends of a game tree, and policies with exact probabilities."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from mage_envs.core import Game, Policy, State, Turn, has_distribution, has_memory, is_state_policy
from mage_envs.opponents.learning.hazard import Hazard
from mage_envs.opponents.learning.policy import LearningPolicy
from mage_envs.opponents.registry import make_opponent
from mage_envs.tree import Node

Objective = Literal["returns", "success"]
Payoff = Callable[[Node, int], float]
"""Function from (node at the end of a hand, seat) to the player's payoff."""


def _success(node: Node, seat: int) -> float:
    # A game without its own notion of winning counts a positive return as a success.
    won = node.state.won(seat)
    return float(node.returns[seat] > 0 if won is None else won)


PAYOFFS: Mapping[str, Payoff] = {"returns": lambda node, seat: node.returns[seat], "success": _success}
"""Payoffs by objective: the return in the game's unit, or 1 for a success (`State.won`, else a positive return)."""


class NotExact(ValueError):
    """A policy without `distribution` or with memory of earlier hands, so that exact values do not exist."""


class RemembersHands(NotExact):
    """A policy with memory of earlier hands, where single hands are evaluated."""


@dataclass(frozen=True)
class Rules:
    """A game as a key of the cache, equal to any game with the same first states."""

    states: tuple[tuple[float, State], ...]
    game: Game = field(compare=False)


class BySeat(Policy):
    """A policy that delegates to one policy per seat."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        self.policies = policies

    def reset(self, rng: np.random.Generator) -> None:
        for policy in self.policies:
            policy.reset(rng)

    def act(self, turn: Turn) -> str:
        return self.policies[turn.player].act(turn)

    def distribution(self, turn: Turn) -> Mapping[str, float]:
        """Return the distribution of the policy in the mover's seat."""
        return self.policies[turn.player].distribution(turn)


def check_seat(game: Game, seat: int) -> None:
    """Raise `ValueError` unless the game has the seat."""
    if seat not in range(game.spec.players):
        raise ValueError(f"{game.title} has the seats 0 to {game.spec.players - 1}, got seat={seat!r}.")


def payoff_of(objective: Objective) -> Payoff:
    """Return the payoff function of an objective."""
    if objective not in PAYOFFS:
        raise ValueError(f"objective={objective!r} is unknown; choose 'returns' or 'success'.")
    return PAYOFFS[objective]


def is_exact(policy: Policy) -> bool:
    """Return True if exact values against the policy can be computed."""
    return has_distribution(policy) and not has_memory(policy)


def exact_policy(spec: str | Policy, game: Game) -> Policy:
    """Return the policy of a specification, or `spec` itself if it is a policy.

    Raises:
        NotExact: If the policy has no `distribution`, or remembers earlier hands.
    """
    return require_exact(make_opponent(spec, game), spec)


def require_exact(policy: Policy, spec: str | Policy) -> Policy:
    """Return the policy that `spec` made; raise `NotExact` as `exact_policy`."""
    if not is_exact(require_no_memory(policy, spec)):
        raise NotExact(no_distribution(spec))
    return policy


def require_no_memory(policy: Policy, spec: str | Policy) -> Policy:
    """Return the policy that `spec` made; raise `NotExact` if it remembers earlier hands."""
    if isinstance(policy, LearningPolicy | Hazard):
        raise RemembersHands(
            f"Opponent {_label(spec)!r} learns or changes, so a single hand has no exact value. mage headroom computes "
            "whole meta-episodes against it."
        )
    if has_memory(policy):
        raise RemembersHands(
            f"Opponent {_label(spec)!r} remembers earlier hands (on_meta_episode_start or on_hand_end): there are no "
            "exact values against it, and no estimates from sampled moves. Remove it from the pool."
        )
    return policy


def no_distribution(spec: str | Policy) -> str:
    """Return the message that exact values do not exist against a policy without `distribution`."""
    return f"Opponent {_label(spec)!r} has no distribution(turn): exact values against it are not available."


def _label(spec: str | Policy) -> str:
    return spec if isinstance(spec, str) else type(spec).__name__


class AtEpisode(Policy):
    """An exact policy with the episode fixed."""

    def __init__(self, policy: Policy, episode: int) -> None:
        self._policy = policy
        self._episode = episode

    def reset(self, rng: np.random.Generator) -> None:
        self._policy.reset(rng)

    def act(self, turn: Turn) -> str:
        return self._policy.act(turn._replace(episode=self._episode))

    def distribution(self, turn: Turn) -> Mapping[str, float]:
        """Return the policy's distribution in the fixed episode, regardless of `turn.episode`."""
        return self._policy.distribution(turn._replace(episode=self._episode))


def in_episode(policy: Policy, episode: int) -> Policy:
    """Return the policy with the episode fixed, or itself if it depends on the information state alone."""
    return policy if is_state_policy(policy) else AtEpisode(policy, episode)
