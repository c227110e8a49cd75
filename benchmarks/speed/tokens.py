"""How many tokens an update forwards: our merged rows, one row per model call, and TRL's own padding.

Pure planning by lengths, through the trainer's own rows and micro-batches; no model and no training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from trainer.trajectory import Trajectory

PROMPTS = (300, 4096)
"""Prompt lengths of the sample, in tokens, uniform: a bare first prompt, up to the paper's limit."""
REPLY_MEDIAN, REPLY_SIGMA, REPLY_LIMIT = 1000, 0.8, 4096
"""Reply lengths of the sample: log-normal, cut at the paper's limit; 4% of the replies reach it."""
PAPER_CALLS, PAPER_UPDATE, PAPER_BUDGET = 128 * 11, 64, 16_384
"""Model calls of a rollout (16 x 8 meta-episodes of 11 calls), calls per update, tokens per micro-batch."""


class Call(NamedTuple):
    """One model call, in tokens."""

    prompt: int
    reply: int

    @property
    def length(self) -> int:
        return self.prompt + self.reply


@dataclass(frozen=True)
class TokenCounts:
    """Tokens forwarded for one pass over a rollout, padding included."""

    updates: int
    useful: int
    """Tokens of the merged rows, without padding: the least that merging leaves."""
    merged: int
    """Our rows: one for each run of calls that extend each other."""
    unmerged: int
    """One row per call, in our micro-batches."""
    trl: int
    """One row per call, padded as TRL pads."""


def forwarded(lengths: Sequence[int], max_tokens: int) -> int:
    """Tokens of one update's micro-batches: rows times the longest row of each."""
    from trainer.batch import plan_micro_batches

    plan = plan_micro_batches(lengths, max_tokens)
    return sum(len(part) * max(lengths[index] for index in part) for part in plan)


def trl_forwarded(calls: Sequence[Call]) -> int:
    """Tokens that TRL forwards for a rollout.

    `GRPOTrainer._generate_and_score_completions` pads all prompts on the left to the longest prompt and all replies on
    the right to the longest reply of the whole generation batch, before it is cut into updates (trl 1.16).
    """
    return len(calls) * (max(call.prompt for call in calls) + max(call.reply for call in calls)) if calls else 0


def calls_of(trajectories: Sequence[Trajectory]) -> list[Call]:
    """The model calls that are trained: those with a reply, of meta-episodes that did not fail."""
    return [
        Call(len(step.prompt_ids), len(step.completion_ids))
        for trajectory in trajectories
        if trajectory.failure is None
        for step in trajectory.steps
        if step.completion_ids
    ]


def row_lengths(trajectories: Sequence[Trajectory], *, merge: bool) -> list[int]:
    """Lengths of the rows that the trainer makes of a rollout."""
    from trainer.batch import build_rows

    ones = [[1.0] * len(trajectory.steps) for trajectory in trajectories]
    return [row.length for row in build_rows(trajectories, ones, merge=merge)]


def into_updates(lengths: Sequence[int], updates: int, seed: int = 0) -> list[list[int]]:
    """The rows, shuffled, in updates of near-equal numbers, as the trainer splits them."""
    order = np.random.default_rng(seed).permutation(len(lengths))
    return [[lengths[i] for i in part] for part in np.array_split(order, min(updates, len(lengths)))]


def rollout_counts(trajectories: Sequence[Trajectory], updates: int, max_tokens: int) -> TokenCounts:
    """The counts of one rollout."""
    merged = row_lengths(trajectories, merge=True)
    unmerged = row_lengths(trajectories, merge=False)
    return TokenCounts(
        updates=updates,
        useful=sum(merged),
        merged=sum(forwarded(part, max_tokens) for part in into_updates(merged, updates)),
        unmerged=sum(forwarded(part, max_tokens) for part in into_updates(unmerged, updates)),
        trl=trl_forwarded(calls_of(trajectories)),
    )


def paper_calls(count: int = PAPER_CALLS, seed: int = 0) -> list[Call]:
    """A made-up sample with the paper's limits: fresh prompts (context `rebuilt`), thinking replies.

    The paper prints no length distribution; this one is stated in PROMPTS and REPLY_*, and spreads over its limits.
    """
    rng = np.random.default_rng(seed)
    prompts = rng.integers(PROMPTS[0], PROMPTS[1], count, endpoint=True)
    replies = np.exp(np.log(REPLY_MEDIAN) + REPLY_SIGMA * rng.standard_normal(count))
    return [Call(int(p), int(r)) for p, r in zip(prompts, np.clip(replies, 1, REPLY_LIMIT), strict=True)]


def paper_counts(calls: Sequence[Call], per_update: int = PAPER_UPDATE, max_tokens: int = PAPER_BUDGET) -> TokenCounts:
    """The counts of a rollout of fresh prompts, which nothing merges: merged rows are rows of one call."""
    updates = -(-len(calls) // per_update)
    lengths = [call.length for call in calls]
    tokens = sum(forwarded(part, max_tokens) for part in into_updates(lengths, updates))
    return TokenCounts(updates=updates, useful=sum(lengths), merged=tokens, unmerged=tokens, trl=trl_forwarded(calls))
