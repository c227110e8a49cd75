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
    first_row = rows[0]
    if len(rows) == 1:
        return first_row
    episodes = [
        EpisodeScore(
            returns=_measure([episode.returns for episode in run_episodes], False),
            success=_measure([episode.success for episode in run_episodes], True),
            draws=sum(episode.draws for episode in run_episodes) / len(run_episodes),
            timeouts=sum(episode.timeouts for episode in run_episodes) / len(run_episodes),
        )
        # If meta-episodes stop early, runs may differ in the last episode that they played.
        for run_episodes in zip(*(row.episodes for row in rows), strict=False)
    ]
    return replace(
        first_row,
        meta_episodes=sum(row.meta_episodes for row in rows),
        failures=sum(row.failures for row in rows),
        invalid=sum(row.invalid for row in rows) / len(rows),
        no_text=sum(row.no_text for row in rows) / len(rows),
        episodes=tuple(episodes),
        gain=_optional([row.gain for row in rows]),
        success_gain=_optional([row.success_gain for row in rows]),
        pass_at=tuple(_mean(estimates, True) for estimates in zip(*(row.pass_at for row in rows), strict=False)),
        calls=_calls(rows),
        # These are per meta-episode or by cause; the rows of the runs have them.
        first_success=None,
        costs=None,
        failed_by={},
    )


def _mean(estimates: Sequence[Estimate], proportion: bool) -> Estimate:
    """Return the mean over runs, each of which is one cluster."""
    mean = estimate([run_estimate.mean for run_estimate in estimates], range(len(estimates)), proportion=proportion)
    return replace(mean, n=sum(run_estimate.n for run_estimate in estimates))


def _optional(estimates: Sequence[Estimate | None]) -> Estimate | None:
    known_estimates = [value for value in estimates if value is not None]
    return _mean(known_estimates, False) if len(known_estimates) == len(estimates) else None


def _measure(measures: Sequence[Measure], proportion: bool) -> Measure:
    """Return a measure over runs. Exact values stay if all runs have the same."""
    return Measure(
        estimate=_mean([measure.estimate for measure in measures], proportion),
        ceiling=_common_value([measure.ceiling for measure in measures]),
        blind=_common_value([measure.blind for measure in measures]),
    )


def _common_value(values: Sequence[float | None]) -> float | None:
    """Return the value that all runs have, or None if they differ: their failures may leave other tasks."""
    known_values = [value for value in values if value is not None]
    # Sums in another order differ in their last digits.
    same = len(known_values) == len(values) and max(known_values) - min(known_values) < 1e-9
    return known_values[0] if same else None


def _calls(rows: Sequence[ScoreRow]) -> dict[str, CallShares]:
    """Return the shares of each kind of call over all runs."""
    shares_by_kind = {}
    for kind in dict.fromkeys(kind for row in rows for kind in row.calls):
        run_shares = [row.calls[kind] for row in rows if kind in row.calls]
        count = sum(shares.calls for shares in run_shares)
        names = ("invalid", "cut", "overflow", "no_text")
        mean_shares = {name: sum(shares.calls * vars(shares)[name] for shares in run_shares) / count for name in names}
        shares_by_kind[kind] = CallShares(calls=count, **mean_shares)
    return shares_by_kind
