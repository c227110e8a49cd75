"""Scores of several runs of one model on the same tasks, as one row with intervals across the runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mage_envs.benchmarks.evaluation.scoring.call_stats import CallShares
from mage_envs.benchmarks.evaluation.scoring.estimates import Estimate, estimate
from mage_envs.benchmarks.evaluation.scoring.scores import EpisodeScore, Measure, ScoreRow


def across_runs(rows: Sequence[ScoreRow]) -> ScoreRow:
    """Return one row for runs of one model.

    A mean is that of the runs' means, and its interval is Student's t (for shares Wilson's) with one degree of freedom
    less than there are runs. The runs share their tasks, so it shows how runs vary, and not how tasks do.

    Args:
        rows: Overall rows of the runs, at least one.
    """
    first = rows[0]
    if len(rows) == 1:
        return first
    episodes = [
        EpisodeScore(
            returns=_measure([one.returns for one in each], False),
            success=_measure([one.success for one in each], True),
            draws=sum(one.draws for one in each) / len(each),
            timeouts=sum(one.timeouts for one in each) / len(each),
        )
        # If meta-episodes stop early, runs may differ in the last episode that they played.
        for each in zip(*(row.episodes for row in rows), strict=False)
    ]
    return replace(
        first,
        meta_episodes=sum(row.meta_episodes for row in rows),
        failures=sum(row.failures for row in rows),
        invalid=sum(row.invalid for row in rows) / len(rows),
        no_text=sum(row.no_text for row in rows) / len(rows),
        episodes=tuple(episodes),
        gain=_optional([row.gain for row in rows]),
        success_gain=_optional([row.success_gain for row in rows]),
        pass_at=tuple(_mean(each, True) for each in zip(*(row.pass_at for row in rows), strict=False)),
        calls=_calls(rows),
        # These are per meta-episode or by cause; the rows of the runs have them.
        first_success=None,
        costs=None,
        failed_by={},
    )


def _mean(each: Sequence[Estimate], proportion: bool) -> Estimate:
    """Return the mean over runs, each of which is one cluster."""
    found = estimate([one.mean for one in each], range(len(each)), proportion=proportion)
    return replace(found, n=sum(one.n for one in each))


def _optional(each: Sequence[Estimate | None]) -> Estimate | None:
    known = [one for one in each if one is not None]
    return _mean(known, False) if len(known) == len(each) else None


def _measure(each: Sequence[Measure], proportion: bool) -> Measure:
    """Return a measure over runs. Exact values stay if all runs have the same."""
    return Measure(
        estimate=_mean([one.estimate for one in each], proportion),
        ceiling=_shared([one.ceiling for one in each]),
        blind=_shared([one.blind for one in each]),
    )


def _shared(values: Sequence[float | None]) -> float | None:
    """Return the value that all runs have, or None if they differ: their failures may leave other tasks."""
    known = [value for value in values if value is not None]
    # Sums in another order differ in their last digits.
    same = len(known) == len(values) and max(known) - min(known) < 1e-9
    return known[0] if same else None


def _calls(rows: Sequence[ScoreRow]) -> dict[str, CallShares]:
    """Return the shares of each kind of call over all runs."""
    found = {}
    for kind in dict.fromkeys(kind for row in rows for kind in row.calls):
        each = [row.calls[kind] for row in rows if kind in row.calls]
        count = sum(one.calls for one in each)
        names = ("invalid", "cut", "overflow", "no_text")
        shares = {name: sum(one.calls * vars(one)[name] for one in each) / count for name in names}
        found[kind] = CallShares(calls=count, **shares)
    return found
