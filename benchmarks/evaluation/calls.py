"""What the model calls of an evaluation came to, by their kind, and what they cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from mage_envs.text.parser import INVALID, LENGTH, NO_TEXT, OVERFLOW
from trainer.trajectory import Step, Trajectory


@dataclass(frozen=True)
class CallShares:
    """The calls of one kind (`play`, or a memory's request) in meta-episodes that did not fail."""

    calls: int
    invalid: float
    """Share of them without a usable answer: no action or an illegal one, no text where one was asked for."""
    cut: float
    """Share cut at the token limit."""
    overflow: float
    """Share whose prompt was too long, and could not be made shorter."""
    no_text: float = 0.0
    """Share to which a server sent no text: a refusal, calls of tools, or nothing."""


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
    """Means per meta-episode."""

    calls: float
    tokens_in: float | None
    """Of prompts; None where nobody counted them."""
    tokens_out: float | None
    seconds: float
    """From asking to the replies, one after another."""


def without_texts(trajectory: Trajectory) -> Trajectory:
    """Return the meta-episode with all that scores and tables read, in a hundredth of the memory.

    Steps that count alike are one object. The seconds are their sum.
    """
    steps = tuple(_counted_step(step.phase, step.kind, step.invalid_reason, step.tokens) for step in trajectory.steps)
    return replace(trajectory, steps=steps, seconds=(sum(trajectory.seconds),), opponent_calls=(), failed_reply=None)


@lru_cache(maxsize=10_000)
def _counted_step(phase: str, kind: str, reason: str | None, tokens: tuple[int, int] | None) -> Step:
    return Step(episode=0, phase=phase, turn=0, hand=0, anchor="", kind=kind, invalid_reason=reason, tokens=tokens)


def shares_by_kind(trajectories: Sequence[Trajectory]) -> dict[str, CallShares]:
    """Kind to its calls, `play` first, then in the order of their names."""
    steps: dict[str, list[Step]] = {}
    for step in (step for t in trajectories for step in t.steps):
        steps.setdefault(step.kind or step.phase, []).append(step)
    return {kind: _shares(steps[kind]) for kind in sorted(steps, key=lambda kind: (kind != "play", kind))}


def _shares(steps: Sequence[Step]) -> CallShares:
    reasons = Counter(step.invalid_reason for step in steps)
    invalid, cut, overflow = (reasons[reason] / len(steps) for reason in (INVALID, LENGTH, OVERFLOW))
    return CallShares(
        calls=len(steps),
        invalid=invalid,
        cut=cut,
        overflow=overflow,
        no_text=share_without_text(steps),
    )


def share_without_text(steps: Sequence[Step]) -> float:
    """Return the share of these calls to which a server sent no text."""
    return sum(step.invalid_reason in NO_TEXT for step in steps) / max(len(steps), 1)


def share_invalid(steps: Sequence[Step]) -> float:
    """Return the share of these calls whose answer had a text, or no prompt that fits, and no usable action."""
    return sum(step.invalid_reason not in (None, *NO_TEXT) for step in steps) / max(len(steps), 1)


def costs_of(trajectories: Sequence[Trajectory]) -> Costs | None:
    """The means; None of nothing."""
    if not trajectories:
        return None
    counted = [step.tokens for t in trajectories for step in t.steps]
    known = [one for one in counted if one is not None]
    told = len(known) == len(counted) > 0
    count = len(trajectories)
    return Costs(
        calls=len(counted) / count,
        tokens_in=sum(one[0] for one in known) / count if told else None,
        tokens_out=sum(one[1] for one in known) / count if told else None,
        seconds=sum(sum(t.seconds) for t in trajectories) / count,
    )


def first_success(trajectories: Sequence[Trajectory]) -> float | None:
    """The mean number of the first episode with a success, from 1, among those that had one."""
    firsts = [next((k for k, e in enumerate(t.episodes, start=1) if e.success), None) for t in trajectories]
    found = [k for k in firsts if k is not None]
    return float(np.mean(found)) if found else None


def failure_kinds(trajectories: Sequence[Trajectory]) -> dict[str, int]:
    """How many meta-episodes broke, by what broke them: generator, opponent, environment, hang, crash, and so on."""
    kinds = Counter(t.failure.partition(":")[0] for t in trajectories if t.failure is not None)
    return dict(sorted(kinds.items()))
