"""The result of an evaluation in one sentence, for panels with exact values."""

from __future__ import annotations

from benchmarks.evaluation.scoring.estimates import Estimate
from benchmarks.evaluation.scoring.scores import Summary
from benchmarks.evaluation.tables.summary_table import NOT_KNOWN
from mage_envs.text.visible import one_line

NOTHING = 1e-9
"""Difference of exact values that counts as rounding."""


def share(value: float | None) -> str:
    """Return a share with two decimals and without the zero before the point: `.43`, `-1.20`."""
    if value is None:
        return NOT_KNOWN
    text = f"{round(value, 2) + 0.0:.2f}"
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def share_text(found: Estimate | None) -> str:
    """Return `.43 ± .04`."""
    if found is None:
        return NOT_KNOWN
    return share(found.mean) if found.half is None else f"{share(found.mean)} ± {share(found.half)}"


def verdict(found: Estimate | None) -> str:
    """Return `adapts: .43 ± .04 of what is possible`, or that the interval does not lie above 0."""
    clear = found is not None and found.low is not None and found.low > 0
    return f"{'adapts' if clear else 'does not measurably adapt'}: {share_text(found)} of what is possible"


def adaptation_sentence(summary: Summary) -> str:
    """Return one sentence on the last episode between the best play without memory (0) and the optimal learner (1).

    It is empty if the panel has no exact values.
    """
    row, planned = summary.overall, len(summary.overall.pass_at)
    if planned < 2 or not 0 < len(row.optimal) == len(row.episodes) == planned:
        return ""
    measure, best = row.episodes[-1].measure(summary.objective), row.optimal[-1]
    if measure.uninformed is None:
        return ""
    way = best - measure.uninformed
    agent = one_line(summary.agent)
    if way < NOTHING:
        return f"{agent}: memory of earlier episodes is worth nothing on this panel."
    found = row.efficiency_estimate(planned - 1, summary.objective)
    gain = row.gain if summary.objective == "returns" else row.success_gain
    memory = None if gain is None else gain.mean / way
    return f"{agent} {verdict(found)} in episode {planned}, of which memory {share(memory)}."
