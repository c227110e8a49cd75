"""Table of the study, as text and as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from examples.objectives.study import CONTRASTS, EPISODES, Learner, StudyGame
from examples.objectives.welch import WelchDifference, difference
from mage_envs.benchmarks.evaluation.scoring.paired import holm
from mage_envs.cli.tables import TextTable

NOTE = """\
Every figure is exact for the model that was trained: the mean over all ways in which a meta-episode can go; +- is the
standard deviation over the seeds. 'optimum' is what the policy earns in each episode that is optimal for what the
learner is paid, by the dynamic program behind `mage headroom`. 'short' is how much less of its pay (the sum of
the episodes, with the weights of the pay) the learner gets than that policy. Where several policies are equally good
their episodes may differ, 'short' does not. 'to last' is what is missing in the last episode alone. Single-episode
credit maximises no one sum: there 'short' weighs the episodes evenly. GRPO pays a whole meta-episode with the sum of
its differential rewards, which is the return of the last episode. GiGPO's optimum is that of A = A_E + A_S, which
counts the present episode once more than the differential return does (docs/headroom.md). Differences are those of
the last episode, with 95% intervals and p-values by Welch's test over the seeds; Holm: adjusted for all these rows.
A difference whose adjusted p is above .05 is none that these seeds show.
"""


@dataclass(frozen=True, kw_only=True)
class LearnedRow:
    """Results of one learner in one game, over all finished seeds."""

    game: str
    learner: str
    seeds: tuple[int, ...]
    mean: tuple[float, ...]
    """Mean return of each episode over the seeds, in the game's unit per hand."""
    deviation: tuple[float, ...]
    """Standard deviation over the seeds (n - 1), 0 if there is one seed."""
    optimum: tuple[float, ...]
    """Return of each episode of the policy that is optimal for the learner's credit."""
    short: float
    """Difference to the optimum, weighted over the episodes by the learner's weights."""
    short_last: float
    """Difference to the optimum in the last episode."""
    reached: bool
    """True if `short` is at most the game's `within`."""
    seconds: float
    """CPU seconds of a run, mean over the seeds."""
    curve: tuple[tuple[float, ...], ...]
    """Return of each episode during training, by rollout, mean over the seeds."""


def build_row(game: StudyGame, learner: Learner, results: Mapping[int, Mapping[str, Any]]) -> LearnedRow:
    """Return the row of one learner in one game.

    Args:
        results: Results of `Learning` by seed.
    """
    returns_by_seed = [result["episodes"] for result in results.values()]
    mean = tuple(statistics.fmean(values) for values in zip(*returns_by_seed, strict=True))
    spread = tuple(
        statistics.stdev(values) if len(returns_by_seed) > 1 else 0.0 for values in zip(*returns_by_seed, strict=True)
    )
    optimum = game.optimum(learner.credit)
    missing = [best - value for best, value in zip(optimum, mean, strict=True)]
    # The weights are those of the learner's credit, so a learner is compared by what it maximises.
    short = sum(weight * value for weight, value in zip(learner.weights, missing, strict=True))
    curves = zip(*(result["curve"] for result in results.values()), strict=True)
    return LearnedRow(
        game=game.name,
        learner=learner.name,
        seeds=tuple(results),
        mean=mean,
        deviation=spread,
        optimum=optimum,
        short=short,
        short_last=missing[-1],
        reached=short <= game.within,
        seconds=statistics.fmean(result["seconds"] for result in results.values()),
        curve=tuple(
            tuple(round(statistics.fmean(values), 4) for values in zip(*point, strict=True)) for point in curves
        ),
    )


def table(rows: Sequence[LearnedRow], games: Sequence[StudyGame]) -> str:
    """Return the table as text: one part per game, the differences, and notes on the figures."""
    lines: list[str] = []
    for game in games:
        mine = [row for row in rows if row.game == game.name]
        if not mine:
            continue
        columns = ["paid for", *(f"episode {k}" for k in range(1, EPISODES + 1)), "optimum", "short", "to last"]
        columns += ["seeds", "CPU s"]
        cells = [_cells(row, game) for row in mine]
        lines += [f"{game.name} ({game.env_id}, {game.unit} per hand)", "", str(TextTable(columns, cells)), ""]
    return "\n".join([*lines, *_differences(rows), NOTE])


def contrasts(rows: Sequence[LearnedRow]) -> list[tuple[LearnedRow, LearnedRow, WelchDifference]]:
    """Return the planned comparisons of rows with two seeds or more, by game."""
    # Welch's test needs a variance of both samples, hence two seeds.
    by_name = {(row.game, row.learner): row for row in rows if len(row.seeds) > 1}
    return [
        (first_row, second_row, difference(_last(first_row), _last(second_row)))
        for game in dict.fromkeys(row.game for row in rows)
        for first_name, second_name in CONTRASTS
        if (first_row := by_name.get((game, first_name))) and (second_row := by_name.get((game, second_name)))
    ]


def _last(row: LearnedRow) -> tuple[float, float, int]:
    return row.mean[-1], row.deviation[-1], len(row.seeds)


def _differences(rows: Sequence[LearnedRow]) -> list[str]:
    comparisons = contrasts(rows)
    if not comparisons:
        return []
    # Adjusted over all games together, because the table shows all differences together.
    adjusted = holm([gap.p for _, _, gap in comparisons])
    cells = [
        [
            f"{first_row.game}: {first_row.learner}  less  {second_row.learner}",
            f"{gap.mean:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}]",
            _chance(gap.p),
            _chance(p),
        ]
        for (first_row, second_row, gap), p in zip(comparisons, adjusted, strict=True)
    ]
    return [str(TextTable(["differences", f"episode {EPISODES}", "p", "Holm"], cells)), ""]


def _chance(p: float) -> str:
    return "< .0001" if p < 0.0001 else f"{p:.4f}"


def _cells(row: LearnedRow, game: StudyGame) -> list[str]:
    mark = "" if row.reached else f" (asked: {game.within:.2f})"
    return [
        row.learner,
        *(f"{mean:.3f} +-{spread:.3f}" for mean, spread in zip(row.mean, row.deviation, strict=True)),
        " ".join(f"{value:.3f}" for value in row.optimum),
        f"{row.short:+.3f}{mark}",
        f"{row.short_last:+.3f}",
        str(len(row.seeds)),
        f"{row.seconds:.0f}",
    ]


def as_json(rows: Sequence[LearnedRow], machine: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rows and the description of the machine as JSON values."""
    return {**machine, "rows": [asdict(row) for row in rows]}
