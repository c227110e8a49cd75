"""Failed meta-episodes counted as losses, which bounds their effect on the scores from below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mage_envs.core import Game
from trainer.method.trajectory import EpisodeResult, Trajectory

MAX_FAILED_SHARE = 0.01
"""Share of failures up to which they are only left out."""


def as_losses(trajectories: Sequence[Trajectory], game: Game) -> list[Trajectory]:
    """Return the meta-episodes with each failed one replaced by losses at the game's worst return, as timeouts.

    Hands and seats are copied from a finished meta-episode that began in the same seat.

    Raises:
        ValueError: If every meta-episode failed.
    """
    whole = [t for t in trajectories if t.failure is None]
    if not whole:
        raise ValueError("Every meta-episode failed, so none shows how many hands a loss has.")
    return [t if t.failure is None else _lost(t, whole, game) for t in trajectories]


def _lost(failed: Trajectory, whole: Sequence[Trajectory], game: Game) -> Trajectory:
    # If no finished one began in this seat, any other still has the right number of hands.
    like = next((t for t in whole if t.task.seat == failed.task.seat), whole[0])

    def lost(k: int) -> EpisodeResult:
        played = like.episodes[min(k, len(like.episodes) - 1)]
        worst = game.spec.min_return * played.hands
        return EpisodeResult(
            reward=0.0, value=worst, hands=played.hands, success=False, timeout=True, seats=played.seats
        )

    episodes = tuple(lost(k) for k in range(like.num_episodes))
    return replace(failed, failure=None, episodes=episodes, num_episodes=like.num_episodes)
