"""Checks of one answer of the model: its validity, its penalty, and its entries in `info`."""

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
    """Return the entries of `info` for an answer that ended neither a hand nor an episode.

    Args:
        invalid_reason: Reason why the answer is invalid, or None.
        action: Action that was played, in the game's spelling.
        penalty: Penalty of the answer, at least 0.
        hand_reward: The answer's share of the episode reward R_k.

    Returns:
        The entries.
    """
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
    """Return the reason why a reply cannot contain an answer, or None if it can.

    Without a tag, a reply may end at its token limit, because one-word styles set the limit to the answer's length.
    """
    if not isinstance(reply, Reply):
        return None
    if reply.overflow:
        return OVERFLOW
    if reply.no_text is not None:
        return reply.no_text
    return LENGTH if reply.truncated and tag is not None else None


def penalty_of(reply: str, reason: str | None, settings: GameSettings) -> float:
    """Compute the penalty for an invalid answer plus the length penalty (docs/method.md, section 2).

    Args:
        reply: The reply. Only a `Reply` with a known limit has a length penalty.
        reason: Reason why the answer is invalid, or None.
        settings: Settings of the game, with both coefficients.

    Returns:
        The penalty, at least 0. If the prompt overflowed or the server sent no text, only the length penalty applies.
    """
    penalty = settings.invalid_penalty if reason in (INVALID, LENGTH) else 0.0
    if settings.length_penalty and isinstance(reply, Reply) and reply.limit > 0:
        # The penalty grows linearly from half of the limit to the limit.
        half = reply.limit / 2
        penalty += settings.length_penalty * min(max((reply.tokens - half) / half, 0.0), 1.0)
    return penalty
