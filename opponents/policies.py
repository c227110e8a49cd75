"""Shapes of policies that the rest of the suite can ask for with `isinstance`."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from mage_envs.core import Policy


@runtime_checkable
class DeclaresDeterminism(Protocol):
    """A policy that says whether it ever draws random numbers.

    With `deterministic` true, `act` is a function of the turn and never touches the generator given to
    `reset`; whoever seats the policy may then save making a random stream. Every built-in opponent has it.
    """

    deterministic: bool


@runtime_checkable
class PolicyShape(Policy, Protocol):
    """A `Policy` as `isinstance` can check it: `reset` and `act` are there."""
