"""The score of adaptation: 0 is the best play without memory, 1 the optimum for the sum of the episodes.

The luck-adjusted total of a meta-episode is the optimum from its start less all regrets of its decisions
(`opponents.exact.regret`). The score maps it linearly, so it is exactly

    1 - (regrets of the meta-episode) / (optimum for the sum - best play without memory).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from benchmarks.evaluation.run.environments import game_of
from benchmarks.evaluation.scoring.estimates import Estimate, stratified
from benchmarks.evaluation.suites.adapt import CELLS, EPISODES, AdaptCell, cell_of
from benchmarks.exact.judged_hands import DecisionPrices, judge
from benchmarks.exact.recorded_generator import SeenPrompt
from benchmarks.exact.regret import Horizon, executed_run, pool_of_run
from benchmarks.records.about import setting_of
from benchmarks.records.record_store import Records, read_suite, reading
from mage_envs.loading.imports import load_entry
from mage_envs.registry import make_game, settings_of
from mage_envs.related import Related
from opponents.exact import Headroom, Objective, headroom
from opponents.exact.regret import DecisionValues
from opponents.pools import OpponentPool, as_pool
from trainer.method.trajectory import Trajectory

NOTHING = 1e-9
"""Headroom below which a cell has no score: the difference is rounding."""


class PlayedValue(NamedTuple):
    """One meta-episode of a cell. All values are sums over the hands of an episode."""

    opponent: str
    seat: int
    """Learner's seat in the first hand."""
    total: float
    """Luck-adjusted sum of the episodes."""
    first: float
    """Luck-adjusted first episode."""
    last: float
    """Luck-adjusted last episode."""
    gain: float
    """Measure of the last episode less that of the first one, as they were paid."""


def exact_values(cell: AdaptCell) -> Headroom:
    """Return the exact values of a cell."""
    seat = settings_of(cell.game).seat or "alternate"
    objective: Objective = "success" if cell.success else "returns"
    game = make_game(cell.game, **cell.options)
    return headroom(game, pool_of(cell), episodes=EPISODES, hands=cell.hands, seat=seat, objective=objective)


def pool_of(cell: AdaptCell) -> OpponentPool:
    """Return the pool of a cell."""
    return as_pool(cell.opponents if isinstance(cell.opponents, str) else dict(cell.opponents))


def has_score(found: Headroom) -> bool:
    """Return True if memory is worth anything for the sum of the episodes."""
    return sum(found.per_episode["sum"]) - sum(found.blind_per_episode) > NOTHING


@dataclass(frozen=True, kw_only=True)
class CellScore:
    """The score of an agent in one cell, in shares of the way from blind (0) to the optimum for the sum (1)."""

    cell: str
    """Name in `CELLS`."""
    unit: str
    score: Estimate | None
    """None for a negative control, in which the way has no length."""
    memory: float | None
    """Part of the score beyond playing every episode like the first one."""
    last: Estimate
    """Luck-adjusted value of the last episode per hand; for a negative control, the gain from the first episode."""
    blind: float
    """Value of an episode of the best play without memory, per hand."""
    best: float
    """Value of the last episode of the best learner for the last episode, per hand."""
    failed: int
    """Number of planned meta-episodes that failed or are missing."""
    shares: tuple[tuple[float, tuple[float, ...]], ...] = ()
    """Weight of each opponent and first seat, with the scores of its meta-episodes."""

    def to_json(self) -> dict[str, Any]:
        """Return the score as JSON values, without the values of single meta-episodes."""
        told = {key: value for key, value in vars(self).items() if key not in ("shares", "score", "last")}
        return told | {"score": estimate_json(self.score), "last": estimate_json(self.last)}


def estimate_json(found: Estimate | None) -> dict[str, Any] | None:
    """Return an estimate as JSON values."""
    return None if found is None else {"mean": found.mean, "low": found.low, "high": found.high, "n": found.n}


@runtime_checkable
class PricedSolution(Protocol):
    """An `ExactSolution` whose game has exact prices of decisions."""

    def prices(self, episodes: int) -> DecisionPrices:
        """Return the prices by the rest of that many episodes; each hand counts by itself if there is one."""
        ...


class CellValues:
    """The decision values of a setting, by the rest of the meta-episode and by the hand alone."""

    def __init__(self, env_id: str, env_kwargs: Mapping[str, Any], pool: Mapping[str, float]) -> None:
        """Prepare the values of an environment with these options against a pool."""
        self.whole: DecisionPrices
        self._hand: DecisionPrices
        game = game_of(env_id, env_kwargs)
        if isinstance(game, Related) and game.solver:
            solution = load_entry(game.solver)(game, as_pool(dict(pool)), EPISODES, "returns")
            if not isinstance(solution, PricedSolution):
                raise ValueError(f"{game.title} has no exact prices of decisions.")
            self.whole, self._hand = solution.prices(EPISODES), solution.prices(1)
            return
        rest = Horizon("sum").rest(env_id, env_kwargs, pool)
        self.whole = DecisionValues(rest.game, rest.pool, rest=rest)
        self._hand = DecisionValues(rest.game, rest.pool)

    def of(self, trajectory: Trajectory, seen: Sequence[SeenPrompt]) -> PlayedValue:
        """Return the luck-adjusted values of a finished meta-episode and its recorded prompts."""
        whole, alone = (judge(values, trajectory, seen) for values in (self.whole, self._hand))
        first, last = (
            sum(hand.adjusted for hand, at in zip(alone.hands, alone.episode_of, strict=True) if at == k)
            for k in (0, trajectory.num_episodes - 1)
        )
        paid = [episode.value for episode in trajectory.episodes]
        return PlayedValue(
            opponent=trajectory.opponent or "",
            seat=trajectory.episodes[0].seats[0],
            total=whole.hands[0].available - sum(sum(hand.regrets) for hand in whole.hands),
            first=first,
            last=last,
            gain=paid[-1] - paid[0],
        )


def played_values(records: Records) -> list[PlayedValue]:
    """Return the luck-adjusted values of a run's meta-episodes, without those that failed.

    The recorded replies are executed again, as `mage replay` does.

    Args:
        records: Records of a run of a panel whose pool is exact.

    Raises:
        ValueError: If the run has another outcome in this version, or no exact regret.
    """
    with reading(records.folder):
        setting = setting_of(records.about)
        pool = pool_of_run(records, setting, game_of(setting.panel.env_id, setting.options))
        values = CellValues(setting.panel.env_id, setting.options, pool)
        return [values.of(trajectory, seen) for trajectory, seen in executed_run(records, setting)]


def plain_values(records: Records, success: bool) -> list[PlayedValue]:
    """Return the values of a run's meta-episodes as they were paid.

    Args:
        records: Records of the run.
        success: True if success is the measure, else the return.
    """
    found = []
    for _, line in sorted(records.lines.items()):
        if line["failure"] is None:
            paid = [float(one["success"] if success else one["value"]) for one in line["episodes"]]
            ends = {"total": sum(paid), "first": paid[0], "last": paid[-1]}
            found.append(PlayedValue(opponent=line["opponent"], seat=line["seat0"], gain=paid[-1] - paid[0], **ends))
    return found


def by_stratum(
    played: Sequence[PlayedValue], values: Sequence[float], weights: Mapping[str, float]
) -> tuple[tuple[float, tuple[float, ...]], ...]:
    """Return the weight and the values of each opponent and first seat.

    The first seats of an opponent count equally. If an opponent was not met, the others share its weight.

    Args:
        played: Meta-episodes.
        values: One value for each of them.
        weights: Weight of each opponent.
    """
    groups: dict[tuple[str, int], list[float]] = {}
    for one, value in zip(played, values, strict=True):
        groups.setdefault((one.opponent, one.seat), []).append(value)
    seats = {name: sum(other == name for other, _ in groups) for name, _ in groups}
    total = sum(weights[name] for name in seats)
    return tuple((weights[name] / total / seats[name], tuple(each)) for (name, _), each in groups.items())


def played_in(records: Records, cell: AdaptCell) -> list[PlayedValue]:
    """Return the values of a run's meta-episodes in a cell, without those that failed.

    Raises RuntimeError if every meta-episode failed, ValueError as `played_values`.
    """
    played = plain_values(records, cell.success) if cell.control else played_values(records)
    if not played:
        raise RuntimeError(f"{records.folder}: no meta-episode could be scored, because all of them failed.")
    return played


def score_of(name: str, cell: AdaptCell, found: Headroom, played: Sequence[PlayedValue], failed: int = 0) -> CellScore:
    """Return the score of meta-episodes in a cell.

    Args:
        name: Name of the cell.
        cell: The cell.
        found: Its exact values.
        played: Values of the meta-episodes.
        failed: Number of planned meta-episodes without values.
    """
    pool = pool_of(cell)
    weights = {str(entry): weight for entry, weight in zip(pool.entries, pool.weights, strict=True)}
    blind, best = (cell.hands * sum(one) for one in (found.blind_per_episode, found.per_episode["sum"]))
    scored = has_score(found)
    shares = by_stratum(played, [(one.total - blind) / (best - blind) for one in played], weights) if scored else ()
    beyond = [(one.total - EPISODES * one.first) / (best - blind) for one in played] if scored else []
    size = 1 if cell.success else cell.hands
    last = [(one.last if scored else one.gain) / size for one in played]
    return CellScore(
        cell=name,
        unit="success" if cell.success else make_game(cell.game, **cell.options).spec.unit,
        score=stratified(shares) if scored else None,
        memory=stratified(by_stratum(played, beyond, weights)).mean if scored else None,
        last=stratified(by_stratum(played, last, weights)),
        blind=found.blind,
        best=found.per_episode["last"][-1],
        failed=failed,
        shares=shares,
    )


def stored_scores(folder: Path, *, partial: bool = False) -> dict[str, list[CellScore]]:
    """Return the scores of all runs of a stored suite by condition, computed again from their records.

    Args:
        folder: Folder of the suite.
        partial: If True, accept a suite that stopped early.

    Raises:
        ValueError: If the folder holds no complete suite of these cells, or as `played_in`.
    """
    plan = read_suite(folder)
    if plan is None or (plan.get("root") is None and not partial):
        raise ValueError(f"{folder} holds no complete suite. Play it with mage adapt … --out {folder}.")
    found: dict[str, list[CellScore]] = {}
    for run in plan["runs"]:
        name, _, condition = run["folder"].partition("/")
        records = Records(folder / run["folder"])
        # The folder's name is the submitter's word, so the panel of the run must be that of the cell.
        if name not in CELLS or cell_of(records.about["panel"]["name"]) is not CELLS[name]:
            raise ValueError(f"{folder / run['folder']} is no run of a cell of the suite adapt.")
        played = played_in(records, CELLS[name])
        failed = records.planned - len(played)
        found.setdefault(condition, []).append(score_of(name, CELLS[name], exact_values(CELLS[name]), played, failed))
    return found


def suite_score(cells: Sequence[CellScore]) -> Estimate | None:
    """Return the mean score of the cells that have one, with its interval, or None if no cell has one.

    Every meta-episode has its own seed, so each is one cluster.
    """
    scored = [cell for cell in cells if cell.score is not None]
    if not scored:
        return None
    return stratified([(weight / len(scored), values) for cell in scored for weight, values in cell.shares])


def suite_difference(cells: Sequence[CellScore], others: Sequence[CellScore]) -> Estimate | None:
    """Return the mean paired difference of two conditions of an agent in the cells that both played.

    Both play the same tasks, so each meta-episode has its difference. A cell in which meta-episodes failed is left out,
    because its values have no partners. None if no cell is left.
    """
    there = {cell.cell: cell for cell in others}
    pairs = [
        (cell, there[cell.cell])
        for cell in cells
        if cell.score is not None and cell.cell in there and not cell.failed and not there[cell.cell].failed
    ]
    if not pairs:
        return None
    return stratified(
        [
            (weight / len(pairs), [one - two for one, two in zip(values, partners, strict=True)])
            for cell, other in pairs
            for (weight, values), (_, partners) in zip(cell.shares, other.shares, strict=True)
        ]
    )


def suite_memory(cells: Sequence[CellScore]) -> float | None:
    """Return the mean of `CellScore.memory` over the cells that have a score, or None if no cell has one."""
    known = [cell.memory for cell in cells if cell.memory is not None]
    return float(np.mean(known)) if known else None
