"""The scale of adaptation: exact reference lines, scores on it with completions of failures, and the verdict.

Three lines, computed exactly for a game and a pool:

    no memory            the best play that knows the pool and forgets everything between episodes
    best learner         the best play that knows the pool, not the opponent, and remembers; optimal for the sum
    knows the opponent   the best response to the opponent that is met

The *level* of an agent maps its luck-adjusted total so that no memory is 0 and the best learner is 1. Its *adaptation*
is the value of its own memory on the same scale: its level less its level on the same tasks without memory, and beside
it less its level with the memory of another opponent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mage_envs.benchmarks.evaluation.scoring.estimates import quantile, strata_error
from mage_envs.opponents.exact import Headroom

ROUNDING = 1e-9
"""Difference of exact values that counts as rounding."""
LEAST_LEVEL = -1.0
"""Least level that a cell contributes to a mean over cells, so that one cell cannot decide it."""
INVALID_PRICE = 0.1
"""Level that an answer without a legal action costs, the same in all games."""
UNSEEN = 3
"""Rule of three: with n trials without an event, its probability is at most 3 / n with a confidence of 95%."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The exact lines of a game against a pool, in the game's unit per hand and episode."""

    no_memory: tuple[float, ...]
    best_learner: tuple[float, ...]
    knows_opponent: tuple[float, ...]
    most_in_last: float
    """The most that any learner can earn in the last episode."""
    hands: int
    """Hands per episode."""
    min_return: float
    """Least return of a hand."""
    max_return: float
    """Greatest return of a hand."""
    restarted: tuple[float, ...] = ()
    """The best learner if it forgets everything before each episode; empty if that is its first episode each time."""

    @classmethod
    def of(cls, values: Headroom, hands: int, min_return: float, max_return: float) -> Scale | None:
        """Return the scale, or None if memory of earlier episodes is worth nothing or its value is not known.

        Args:
            values: Exact values of the game and pool.
            hands: Hands per episode.
            min_return: Least return of a hand.
            max_return: Greatest return of a hand.
        """
        if not values.exact or not values.no_memory_per_episode:
            return None
        scale = cls(
            no_memory=values.no_memory_per_episode,
            best_learner=values.per_episode["sum"],
            knows_opponent=values.known_per_episode,
            most_in_last=values.per_episode["last"][-1],
            hands=hands,
            min_return=min_return,
            max_return=max_return,
            restarted=values.restarted_per_episode,
        )
        return scale if scale.length > ROUNDING else None

    @property
    def length(self) -> float:
        """Return the distance between the ends: best learner less no memory, summed over all hands."""
        return self.hands * (sum(self.best_learner) - sum(self.no_memory))

    def lines(self) -> dict[str, tuple[float, ...]]:
        """Return the reference lines by their names, per hand of each episode."""
        return {
            "no memory": self.no_memory,
            "best learner": self.best_learner,
            "knows the opponent": self.knows_opponent,
        }

    def level(self, total: float) -> float:
        """Return the level of a total over all hands of a meta-episode."""
        return (total - self.hands * sum(self.no_memory)) / self.length

    @property
    def least_level(self) -> float:
        """Return the level of the least return in every hand."""
        return self.level(self.hands * len(self.no_memory) * self.min_return)

    @property
    def widest_difference(self) -> float:
        """Return the largest difference of two levels in episodes 2 to K."""
        return (len(self.no_memory) - 1) * self.hands * (self.max_return - self.min_return) / self.length

    @property
    def best_adaptation(self) -> float:
        """Return the adaptation of the best learner: 1, plus what it pays for learning in the first episode.

        Without memory it pays again in each episode and gains nothing. Opponents that learn remember that it did.
        """
        first_value, *later_values = self.best_learner
        forgetful_values = self.restarted[1:] or [first_value] * len(later_values)
        return self.hands * (sum(later_values) - sum(forgetful_values)) / self.length

    def to_json(self) -> dict[str, Any]:
        """Return the lines as JSON values."""
        return {
            "no_memory": list(self.no_memory),
            "best_learner": list(self.best_learner),
            "knows_opponent": list(self.knows_opponent),
            "most_in_last": self.most_in_last,
            "best_adaptation": self.best_adaptation,
        }


class Stratum(NamedTuple):
    """The meta-episodes against one opponent from one first seat."""

    opponent: str
    weight: float
    """Share of the stratum. The shares of all strata sum to 1."""
    values: tuple[float, ...]
    """Value of each meta-episode that was played."""
    missing: int
    """Number of planned meta-episodes without a value."""
    slip: float = 0.0
    """Largest price of a single wrong action that was open to the agent. It bounds losses that were not seen."""


@dataclass(frozen=True, kw_only=True)
class ScaleScore:
    """A mean over strata, with the means of its worst and its best completion if meta-episodes failed."""

    mean: float
    low: float | None
    """Lower end of the 95% interval if nothing failed; None if there is no interval."""
    high: float | None
    worst: float
    """Mean if every failed meta-episode had the least possible value. Equal to `mean` if none failed."""
    best: float
    failed: int
    planned: int
    unmet: tuple[str, ...] = ()
    """Opponents of the pool that were never met. Then there is no score."""

    @property
    def half(self) -> float | None:
        """Return the larger distance from the mean to an end of the interval, or None without an interval."""
        return None if self.low is None or self.high is None else max(self.mean - self.low, self.high - self.mean)

    @property
    def is_complete(self) -> bool:
        """Return True if no meta-episode failed."""
        return not self.failed

    @property
    def floor(self) -> float | None:
        """Return the lower end of what is known: of the interval, or of the worst completion. None if unknown."""
        if self.unmet:
            return None
        return self.low if self.is_complete else self.worst

    @property
    def ceiling(self) -> float | None:
        """Return the upper end of what is known, as `floor`."""
        if self.unmet:
            return None
        return self.high if self.is_complete else self.best

    def to_json(self) -> dict[str, Any]:
        """Return the score as JSON values; without a mean if an opponent was never met."""
        is_known = not self.unmet
        return {
            "mean": self.mean if is_known and self.is_complete else None,
            "low": self.floor,
            "high": self.ceiling,
            "failed": self.failed,
            "n": self.planned,
            **({} if is_known else {"unmet": list(self.unmet)}),
        }


def score_strata(
    strata: Sequence[Stratum], lower_bound: float, upper_bound: float, half: float | None = None, paired: bool = False
) -> ScaleScore:
    """Return the score of strata.

    The interval is that of `strata_error`. A stratum without variance may have losses that are too rare to be seen:
    by the rule of three, the lower end allows for the strata's largest slip with a probability of 3 / n, where n counts
    the meta-episodes of all strata without variance.

    Args:
        strata: Strata whose weights sum to 1.
        lower_bound: Least possible value of a meta-episode.
        upper_bound: Greatest possible value of a meta-episode.
        half: Half the width of the interval, if the meta-episodes are not independent (default: from the strata).
        paired: True if the values are differences of two runs. A slip of the second one raises them, so the upper end
            allows for it, too.

    Raises:
        ValueError: If there is no stratum.
    """
    if not strata:
        raise ValueError("A score requires at least one stratum.")
    failed = sum(stratum.missing for stratum in strata)
    planned = failed + sum(len(stratum.values) for stratum in strata)
    counts: dict[str, int] = {}
    for stratum in strata:
        counts[stratum.opponent] = counts.get(stratum.opponent, 0) + len(stratum.values)
    mean, worst, best = (
        sum(s.weight * _complete_mean(s, value) for s in strata) for value in (None, lower_bound, upper_bound)
    )
    score = ScaleScore(
        mean=mean,
        low=None,
        high=None,
        worst=worst,
        best=best,
        failed=failed,
        planned=planned,
        unmet=tuple(name for name, count in counts.items() if not count),
    )
    if failed or any(len(stratum.values) < 2 for stratum in strata):
        return score
    if half is None:
        error, freedom = strata_error([(stratum.weight, stratum.values) for stratum in strata])
        half = quantile(freedom) * error
    wide = float(np.hypot(half, unseen_loss(strata)))
    return ScaleScore(
        **{**vars(score), "low": mean - wide, "high": min(mean + (wide if paired else half), upper_bound)}
    )


def unseen_loss(strata: Sequence[Stratum]) -> float:
    """Return the loss that strata without variance may hide, by the rule of three."""
    constant = [stratum for stratum in strata if np.ptp(stratum.values) <= ROUNDING]
    count = sum(len(stratum.values) for stratum in constant)
    return sum(stratum.weight * stratum.slip * min(UNSEEN / count, 1.0) for stratum in constant)


def _complete_mean(stratum: Stratum, value: float | None) -> float:
    """Return the mean of a stratum if its missing meta-episodes had this value; None leaves them out."""
    if value is None:
        return float(np.mean(stratum.values)) if stratum.values else 0.0
    count = len(stratum.values) + stratum.missing
    return (sum(stratum.values) + stratum.missing * value) / count


def mean_score(scores: Sequence[tuple[float, ScaleScore]], lower_bound: float = -np.inf) -> ScaleScore:
    """Return the weighted mean of independent scores. Values below `lower_bound` count as `lower_bound`.

    Args:
        scores: Weight of each score, and the score. The weights sum to 1.
        lower_bound: Least value of a score in the mean.

    Raises:
        ValueError: If there is no score.
    """
    if not scores:
        raise ValueError("A mean requires at least one score.")
    mean, worst, best = (
        sum(weight * max(vars(score)[name], lower_bound) for weight, score in scores)
        for name in ("mean", "worst", "best")
    )
    low: float | None = None
    high: float | None = None
    if all(score.half is not None for _, score in scores):
        # A score that counts as `lower_bound` has no luck left in the mean.
        means = np.array([max(score.mean, lower_bound) for _, score in scores])
        weights = np.array([weight for weight, _ in scores])
        lows, highs = (
            np.array([max(mean if end is None else end, lower_bound) for mean, end in zip(means, ends, strict=True)])
            for ends in ([score.low for _, score in scores], [score.high for _, score in scores])
        )
        low = mean - float(np.linalg.norm(weights * (means - lows)))
        high = mean + float(np.linalg.norm(weights * (highs - means)))
    return ScaleScore(
        mean=mean,
        low=low,
        high=high,
        worst=worst,
        best=best,
        failed=sum(score.failed for _, score in scores),
        planned=sum(score.planned for _, score in scores),
        unmet=tuple(dict.fromkeys(name for _, score in scores for name in score.unmet)),
    )


ADAPTS, WRONG, UNCLEAR = "adapts", "adapts in the wrong direction", "does not measurably adapt"


def verdict(own_score: ScaleScore | None, other_score: ScaleScore | None) -> str | None:
    """Return the verdict from the two paired differences, or None without one.

    Args:
        own_score: Level with the agent's memory less the level without memory, None if it was not played.
        other_score: Level with the agent's memory less the level with another opponent's memory.
    """
    differences = [score for score in (own_score, other_score) if score is not None]
    if len(differences) < 2 or any(score.floor is None or score.ceiling is None for score in differences):
        return None
    if all(score.floor > 0 for score in differences):  # type: ignore[operator]
        return ADAPTS
    if all(score.ceiling < 0 for score in differences):  # type: ignore[operator]
        return WRONG
    # With failures the intervals are completions, which say nothing if they contain 0.
    return UNCLEAR if all(score.is_complete for score in differences) else None


def family_weights(families: Mapping[str, str]) -> dict[str, float]:
    """Return the weight of each cell in the mean over families, from the family of each cell."""
    names = list(families.values())
    return {cell: 1 / len(set(names)) / names.count(family) for cell, family in families.items()}
