"""Statistics of an evaluation's model calls by kind, their costs, and failures counted as losses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from mage_envs.core import Game
from mage_envs.text.parser import INVALID, LENGTH, NO_TEXT, OVERFLOW
from mage_envs.wrappers.rollout.trajectory import EpisodeResult, Step, Trajectory

MAX_FAILED_SHARE = 0.01
"""Share of failures up to which they are only left out."""


@dataclass(frozen=True)
class CallShares:
    """Calls of one kind (`play`, or a memory's request) in meta-episodes that did not fail."""

    calls: int
    invalid: float
    """Share without a usable answer: no action or an illegal one, or no text if the request needs one."""
    cut: float
    """Share cut at the token limit."""
    overflow: float
    """Share with a prompt that was too long and could not be shortened."""
    no_text: float = 0.0
    """Share for which a server returned no text: a refusal, tool calls, or nothing."""


REPLY_PROBLEMS: Mapping[str, str] = {
    "invalid": "held no legal action",
    "cut": "were cut at the token limit; raise max_tokens",
    "overflow": "had a prompt above the model's limit",
    "no_text": "came back without a text (refusals, tool calls or empty)",
}
"""Field of `CallShares` to the rest of a sentence about such replies."""
MAX_UNUSABLE = 0.05
"""Share of unusable replies, or of failed meta-episodes, above which tables warn."""


@dataclass(frozen=True)
class Costs:
    """Mean costs per meta-episode."""

    calls: float
    tokens_in: float | None
    """Prompt tokens, or None if the backend does not count them."""
    tokens_out: float | None
    """Reply tokens, or None if the backend does not count them."""
    seconds: float
    """Time from each prompt to its reply, summed over the calls."""


def without_texts(trajectory: Trajectory) -> Trajectory:
    """Return the meta-episode with the fields that scores and tables read, in about 1% of the memory.

    Steps with equal fields share one object. The seconds are summed.
    """
    # The many steps of a panel have few distinct combinations of these fields. The cache returns one object for each.
    steps = tuple(_intern_step(step.phase, step.kind, step.invalid_reason, step.tokens) for step in trajectory.steps)
    return replace(trajectory, steps=steps, seconds=(sum(trajectory.seconds),), opponent_calls=(), failed_reply=None)


@lru_cache(maxsize=10_000)
def _intern_step(phase: str, kind: str, reason: str | None, tokens: tuple[int, int] | None) -> Step:
    """Return the shared step with these fields."""
    return Step(episode=0, phase=phase, turn=0, hand=0, anchor="", kind=kind, invalid_reason=reason, tokens=tokens)


def shares_by_kind(trajectories: Sequence[Trajectory]) -> dict[str, CallShares]:
    """Return the shares of each kind of call: `play` first, then the other kinds in alphabetical order."""
    steps: dict[str, list[Step]] = {}
    for step in (step for t in trajectories for step in t.steps):
        steps.setdefault(step.kind or step.phase, []).append(step)
    return {kind: _shares(steps[kind]) for kind in sorted(steps, key=lambda kind: (kind != "play", kind))}


def reply_problems_of(steps: Sequence[Step]) -> dict[str, int]:
    """Return the number of replies with each of `REPLY_PROBLEMS`."""
    reasons = Counter(step.invalid_reason for step in steps)
    invalid, cut, overflow = (reasons[reason] for reason in (INVALID, LENGTH, OVERFLOW))
    return {"invalid": invalid, "cut": cut, "overflow": overflow, "no_text": sum(reasons[cause] for cause in NO_TEXT)}


def _shares(steps: Sequence[Step]) -> CallShares:
    """Return the shares of calls of one kind."""
    return CallShares(
        calls=len(steps), **{name: count / len(steps) for name, count in reply_problems_of(steps).items()}
    )


def share_without_text(steps: Sequence[Step]) -> float:
    """Return the share of these calls for which a server returned no text."""
    return sum(step.invalid_reason in NO_TEXT for step in steps) / max(len(steps), 1)


def share_invalid(steps: Sequence[Step]) -> float:
    """Return the share of these calls whose answer had text, or whose prompt did not fit, but no usable action."""
    return sum(step.invalid_reason not in (None, *NO_TEXT) for step in steps) / max(len(steps), 1)


def costs_of(trajectories: Sequence[Trajectory]) -> Costs | None:
    """Return the mean costs, or None if `trajectories` is empty."""
    if not trajectories:
        return None
    tokens_by_call = [step.tokens for t in trajectories for step in t.steps]
    counted = [tokens for tokens in tokens_by_call if tokens is not None]
    # A mean over the counted calls alone would be too low, so the tokens are unknown if any call was not counted.
    all_counted = len(counted) == len(tokens_by_call) > 0
    count = len(trajectories)
    return Costs(
        calls=len(tokens_by_call) / count,
        tokens_in=sum(tokens[0] for tokens in counted) / count if all_counted else None,
        tokens_out=sum(tokens[1] for tokens in counted) / count if all_counted else None,
        seconds=sum(sum(t.seconds) for t in trajectories) / count,
    )


def first_success(trajectories: Sequence[Trajectory]) -> float | None:
    """Return the mean number of the first successful episode, from 1, among the meta-episodes that had one."""
    firsts = [next((k for k, e in enumerate(t.episodes, start=1) if e.success), None) for t in trajectories]
    first_episodes = [k for k in firsts if k is not None]
    return float(np.mean(first_episodes)) if first_episodes else None


def failure_kinds(trajectories: Sequence[Trajectory]) -> dict[str, int]:
    """Return the number of failed meta-episodes by cause: generator, opponent, environment, hang, crash, and so on."""
    kinds = Counter(t.failure.partition(":")[0] for t in trajectories if t.failure is not None)
    return dict(sorted(kinds.items()))


def as_losses(trajectories: Sequence[Trajectory], game: Game) -> list[Trajectory]:
    """Return the meta-episodes with each failed one replaced by losses at the game's worst return, as timeouts.

    Hands and seats are copied from a finished meta-episode that began in the same seat.

    Raises:
        ValueError: If every meta-episode failed.
    """
    finished = [t for t in trajectories if t.failure is None]
    if not finished:
        raise ValueError("Every meta-episode failed, so none shows how many hands a loss has.")
    return [t if t.failure is None else _as_loss(t, finished, game) for t in trajectories]


def _as_loss(failed: Trajectory, finished: Sequence[Trajectory], game: Game) -> Trajectory:
    # If no finished one began in this seat, any other still has the right number of hands.
    like = next((t for t in finished if t.task.seat == failed.task.seat), finished[0])

    def make_loss(k: int) -> EpisodeResult:
        episode = like.episodes[min(k, len(like.episodes) - 1)]
        worst = game.spec.min_return * episode.hands
        return EpisodeResult(
            reward=0.0, value=worst, hands=episode.hands, success=False, timeout=True, seats=episode.seats
        )

    episodes = tuple(make_loss(k) for k in range(like.num_episodes))
    return replace(failed, failure=None, episodes=episodes, num_episodes=like.num_episodes)
