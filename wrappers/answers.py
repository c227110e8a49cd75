"""One answer of the model: whether it can be read, what it costs, what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mage_envs.core import HandResult
from mage_envs.settings import GameSettings
from mage_envs.text.parser import INVALID, LENGTH, OVERFLOW, Reply


class Outcome(NamedTuple):
    """What became of one answer."""

    invalid_reason: str | None = None
    """None, `invalid`, `length` or `overflow`."""
    action: str | None = None
    """The move that was played, as the game spells it; None for an invalid answer and for a reflection."""
    penalty: float = 0.0
    """Not negative."""
    hand_reward: float = 0.0
    """This answer's share of R_k."""
    results: tuple[HandResult, ...] = ()
    """The hands that it ended."""
    episode_end: bool = False
    metrics: Mapping[str, float] = {}
    """The game's metrics after it; no prompt shows them."""
    thought: bool = False
    """It was a thought alone, and spent no turn."""


def unusable(reply: str, tag: str | None) -> str | None:
    """Why a reply cannot hold an answer. A bare one-word reply ends at its limit by design."""
    if not isinstance(reply, Reply):
        return None
    if reply.overflow:
        return OVERFLOW
    return LENGTH if reply.truncated and tag is not None else None


def penalty_of(reply: str, reason: str | None, settings: GameSettings) -> float:
    """Invalid-answer plus length penalty (docs/method.md, section 2); an overflow had no reply to punish."""
    penalty = settings.invalid_penalty if reason in (INVALID, LENGTH) else 0.0
    if settings.length_penalty and isinstance(reply, Reply) and reply.limit > 0:
        half = reply.limit / 2
        penalty += settings.length_penalty * min(max((reply.tokens - half) / half, 0.0), 1.0)
    return penalty
