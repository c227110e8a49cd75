"""What a meta-episode tells the rollout loop: what it asks, what became of an answer, how an episode ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mage_envs.text.prompts import EpisodeRecord


class Asked(NamedTuple):
    """What the next answer is about."""

    phase: str
    """`play` or `reflect`."""
    episode: int
    hand: int
    """Index of the running hand in its episode; 0 outside of play."""
    anchor: str
    """The raw observation; `reflection` outside of play."""
    legal_actions: tuple[str, ...]
    """Those included that no prompt shows; none outside of play."""


class Outcome(NamedTuple):
    """What became of one answer."""

    reason: str | None
    """None, `invalid`, `length` or `overflow`."""
    penalty: float = 0.0
    hand_reward: float = 0.0
    """This answer's share of R_k."""
    hand_end: bool = False
    episode_end: bool = False


class EpisodeResult(NamedTuple):
    """How one episode of a meta-episode ended."""

    reward: float
    """R_k."""
    value: float
    """The learner's return in the game's unit (chips), summed over the hands."""
    hands: int
    success: bool
    timeout: bool
    seats: tuple[int, ...]
    """The learner's seat in each hand."""
    metrics: Mapping[str, float] = {}
    """The game's metrics at the end."""


def result_of(record: EpisodeRecord) -> EpisodeResult:
    """The figures of a finished episode."""
    seats = tuple([hand.seat for hand in record.hands])
    return EpisodeResult(
        record.reward, record.value, len(record.hands), record.success, record.timeout, seats, record.metrics
    )
