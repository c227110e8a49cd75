"""Number of tokens that an update forwards: our merged rows, one row per model call, and TRL's own padding.

The counts need only lengths and the trainer's own rows and micro-batches, without a model or training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mage_envs.wrappers.rollout.trajectory import Trajectory

PROMPTS = (300, 4096)
"""Range of the sample's prompt lengths in tokens, uniform: from a bare first prompt to the paper's limit."""
REPLY_MEDIAN, REPLY_SIGMA, REPLY_LIMIT = 1000, 0.8, 4096
"""Reply lengths of the sample in tokens: log-normal, cut at the paper's limit, which 4% of the replies reach."""
PAPER_CALLS, PAPER_UPDATE, PAPER_BUDGET = 128 * 11, 64, 16_384
"""Model calls of a rollout (16 x 8 meta-episodes of 11 calls), calls per update, tokens per micro-batch."""


class Call(NamedTuple):
    """Lengths of a model call in tokens."""

    prompt: int
    reply: int

    @property
    def length(self) -> int:
        return self.prompt + self.reply


@dataclass(frozen=True)
class TokenCounts:
    """Numbers of tokens forwarded in one pass over a rollout, including padding."""

    updates: int
    useful: int
    """Tokens of the merged rows without padding: the lower limit with merging."""
    merged: int
    """Tokens of our rows: one row for each run of calls that extend each other."""
    unmerged: int
    """Tokens of one row per call, in our micro-batches."""
    trl: int
    """Tokens of one row per call, padded as in TRL."""


def count_forwarded(lengths: Sequence[int], max_tokens: int) -> int:
    """Return the tokens of an update's micro-batches: number of rows times longest row, summed over micro-batches."""
    # The trainer is imported in functions, because the other benchmarks of this folder do not need torch.
    from mage_envs.trainer.method.batch import plan_micro_batches

    plan = plan_micro_batches(lengths, max_tokens)
    return sum(len(part) * max(lengths[index] for index in part) for part in plan)


def trl_forwarded(calls: Sequence[Call]) -> int:
    """Return the number of tokens that TRL forwards for a rollout."""
    # `GRPOTrainer._generate_and_score_completions` pads all prompts on the left to the longest prompt, and all replies
    # on the right to the longest reply. It pads the whole generation batch before it splits it into updates (trl 1.16).
    return len(calls) * (max(call.prompt for call in calls) + max(call.reply for call in calls)) if calls else 0


def calls_of(trajectories: Sequence[Trajectory]) -> list[Call]:
    """Return the model calls that are trained: those with a reply, if their meta-episode did not fail."""
    return [
        Call(len(step.prompt_ids), len(step.completion_ids))
        for trajectory in trajectories
        if trajectory.failure is None
        for step in trajectory.steps
        if step.completion_ids
    ]


def row_lengths(trajectories: Sequence[Trajectory], *, merge: bool) -> list[int]:
    """Return the lengths of the rows that the trainer builds from a rollout."""
    from mage_envs.trainer.method.batch import build_rows

    # The lengths do not depend on the advantages, so any values do.
    ones = [[1.0] * len(trajectory.steps) for trajectory in trajectories]
    return [row.length for row in build_rows(trajectories, ones, merge=merge)]


def into_updates(lengths: Sequence[int], updates: int, seed: int = 0) -> list[list[int]]:
    """Shuffle the rows and split them into updates of nearly equal numbers, as the trainer does.

    Args:
        updates: Number of updates, reduced if there are fewer rows.
    """
    order = np.random.default_rng(seed).permutation(len(lengths))
    return [[lengths[i] for i in part] for part in np.array_split(order, min(updates, len(lengths)))]


def rollout_counts(trajectories: Sequence[Trajectory], updates: int, max_tokens: int) -> TokenCounts:
    """Return the token counts of one rollout.

    Args:
        max_tokens: Maximal number of tokens per micro-batch.
    """
    merged = row_lengths(trajectories, merge=True)
    unmerged = row_lengths(trajectories, merge=False)
    return TokenCounts(
        updates=updates,
        useful=sum(merged),
        merged=sum(count_forwarded(part, max_tokens) for part in into_updates(merged, updates)),
        unmerged=sum(count_forwarded(part, max_tokens) for part in into_updates(unmerged, updates)),
        trl=trl_forwarded(calls_of(trajectories)),
    )


def paper_calls(count: int = PAPER_CALLS, seed: int = 0) -> list[Call]:
    """Return an artificial sample with the paper's limits: fresh prompts (context `rebuilt`) and thinking replies.

    The paper does not report the distribution of lengths. PROMPTS and REPLY_* define the one used here, which covers
    the range up to the paper's limits.
    """
    rng = np.random.default_rng(seed)
    prompts = rng.integers(PROMPTS[0], PROMPTS[1], count, endpoint=True)
    replies = np.exp(np.log(REPLY_MEDIAN) + REPLY_SIGMA * rng.standard_normal(count))
    return [Call(int(p), int(r)) for p, r in zip(prompts, np.clip(replies, 1, REPLY_LIMIT), strict=True)]


def paper_counts(calls: Sequence[Call], per_update: int = PAPER_UPDATE, max_tokens: int = PAPER_BUDGET) -> TokenCounts:
    """Return the token counts of a rollout of fresh prompts, in which no calls are merged.

    Args:
        calls: Model calls of the rollout.
        per_update: Number of calls per update.
        max_tokens: Maximal number of tokens per micro-batch.
    """
    # Division that rounds up: a last, smaller update counts.
    updates = -(-len(calls) // per_update)
    lengths = [call.length for call in calls]
    tokens = sum(count_forwarded(part, max_tokens) for part in into_updates(lengths, updates))
    return TokenCounts(updates=updates, useful=sum(lengths), merged=tokens, unmerged=tokens, trl=trl_forwarded(calls))
