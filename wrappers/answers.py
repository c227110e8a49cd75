"""One answer of the model: whether it can be read, what it costs, what became of it."""

from __future__ import annotations

from typing import Any

from mage_envs.settings import GameSettings
from mage_envs.text.parser import INVALID, LENGTH, OVERFLOW, Reply


def outcome(
    *,
    invalid_reason: str | None = None,
    action: str | None = None,
    penalty: float = 0.0,
    hand_reward: float = 0.0,
) -> dict[str, Any]:
    """What became of an answer that ended nothing, as `info` has it. `action`: the move that was played, as the game
    spells it; `penalty` is not negative; `hand_reward`: the answer's share of R_k."""
    return {
        "invalid_reason": invalid_reason,
        "action": action,
        "penalty": penalty,
        "hand_reward": hand_reward,
        "hand_end": False,
        "episode_end": False,
        "episode_return": None,
        "success": None,
    }


def unusable(reply: str, tag: str | None) -> str | None:
    """Why a reply cannot hold an answer. A bare one-word reply ends at its limit by design."""
    if not isinstance(reply, Reply):
        return None
    if reply.overflow:
        return OVERFLOW
    if reply.no_text is not None:
        return reply.no_text
    return LENGTH if reply.truncated and tag is not None else None


def penalty_of(reply: str, reason: str | None, settings: GameSettings) -> float:
    """Invalid-answer plus length penalty (docs/method.md, section 2); an overflow and an answer without text
    had nothing to punish."""
    penalty = settings.invalid_penalty if reason in (INVALID, LENGTH) else 0.0
    if settings.length_penalty and isinstance(reply, Reply) and reply.limit > 0:
        half = reply.limit / 2
        penalty += settings.length_penalty * min(max((reply.tokens - half) / half, 0.0), 1.0)
    return penalty
