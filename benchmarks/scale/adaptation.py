"""Luck-adjusted values of the meta-episodes of a run, and the scores of the run on the scale of adaptation.

The luck-adjusted total of a meta-episode is the optimum from its start less all regrets of its decisions
(`mage_envs.opponents.exact.regret`), so the level is exactly

    1 - (regrets of the meta-episode) / (best learner - no memory).

The value of an episode against the opponent that was met is luck-adjusted by a judge that knows this opponent. It is
unbiased whatever the agent believes, so it also compares runs with an empty memory or with another opponent's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from mage_envs.benchmarks.evaluation.scoring.estimates import Estimate, estimate
from mage_envs.benchmarks.evaluation.suites.adapt import EPISODES, AdaptCell
from mage_envs.benchmarks.evaluation.suites.environments import game_of, make_envs
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.exact.judged_hands import DecisionPrices, judge
from mage_envs.benchmarks.exact.recorded_generator import SeenPrompt
from mage_envs.benchmarks.exact.regret import Horizon, execute_lines, pool_of_run
from mage_envs.benchmarks.records.about import setting_of
from mage_envs.benchmarks.records.record_store import Records, reading
from mage_envs.benchmarks.scale.scale import INVALID_PRICE, Scale, ScaleScore, Stratum, score_strata
from mage_envs.core import Task
from mage_envs.loading.imports import load_entry
from mage_envs.opponents.exact import Headroom, Objective, headroom
from mage_envs.opponents.exact.regret import DecisionValues
from mage_envs.opponents.pools import OpponentPool, as_pool
from mage_envs.registry import make_game, settings_of
from mage_envs.related import Related
from mage_envs.wrappers.rollout.trajectory import Trajectory
from mage_envs.wrappers.rollout.trajectory_json import Line


class PlayedValue(NamedTuple):
    """One meta-episode. All values are sums over the hands of an episode, in the game's unit."""

    total: float
    """Luck-adjusted sum of the episodes, under the posterior over the pool."""
    episodes: tuple[float, ...]
    """Value of each episode against the opponent that was met, luck-adjusted by a judge that knows it."""
    paid: tuple[float, ...]
    """Measure of each episode as it was paid."""
    slip: float = 0.0
    """Largest price of a single wrong action that was open to the agent."""
    regrets: tuple[float, ...] = ()
    """Regret of each episode against the best play of the rest of the meta-episode, under the posterior."""
    unusable: tuple[int, ...] = ()
    """Answers of each episode that named no legal action or were cut; empty if there were none."""


def exact_values(cell: AdaptCell) -> Headroom:
    """Return the exact values of a cell."""
    seat = settings_of(cell.game).seat or "alternate"
    objective: Objective = "success" if cell.success else "returns"
    game = make_game(cell.game, **cell.options)
    return headroom(game, pool_of(cell), episodes=EPISODES, hands=cell.hands, seat=seat, objective=objective)


def pool_of(cell: AdaptCell) -> OpponentPool:
    """Return the pool of a cell."""
    return as_pool(cell.opponents if isinstance(cell.opponents, str) else dict(cell.opponents))


def scale_of_cell(cell: AdaptCell) -> Scale | None:
    """Return the scale of a cell, or None for a negative control."""
    if cell.control:
        return None
    spec = make_game(cell.game, **cell.options).spec
    return Scale.of(exact_values(cell), cell.hands, spec.min_return, spec.max_return)


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
            episodes = make_envs(env_id, env_kwargs)[0].get_wrapper_attr("num_episodes")
            solution = load_entry(game.solver)(game, as_pool(dict(pool)), episodes, "returns")
            if not isinstance(solution, PricedSolution):
                raise ValueError(f"{game.title} has no exact prices of decisions.")
            self.whole, self._hand = solution.prices(episodes), solution.prices(1)
            return
        remainder = Horizon("sum").rest(env_id, env_kwargs, pool)
        self.whole = DecisionValues(remainder.game, remainder.pool, rest=remainder)
        # In a series, an entry of the pool is an opponent with an order of the tasks.
        self._hand = DecisionValues(
            remainder.game, remainder.pool, names=[name for name in pool for _ in range(remainder.orders)]
        )

    def of(self, trajectory: Trajectory, prompts: Sequence[SeenPrompt]) -> PlayedValue:
        """Return the luck-adjusted values of a finished meta-episode and its recorded prompts."""
        judged_whole = judge(self.whole, trajectory, prompts)
        judged_by_hand = judge(self._hand, trajectory, prompts, trajectory.opponent or "")
        prices = [max(values.values()) - min(values.values()) for hand in judged_whole.hands for values in hand.values]
        lost = [
            sum(
                sum(hand.regrets)
                for hand, episode in zip(judged_whole.hands, judged_whole.episode_of, strict=True)
                if episode == k
            )
            for k in range(trajectory.num_episodes)
        ]
        return PlayedValue(
            total=judged_whole.hands[0].available - sum(lost),
            regrets=tuple(lost),
            episodes=tuple(
                sum(
                    hand.adjusted
                    for hand, episode in zip(judged_by_hand.hands, judged_by_hand.episode_of, strict=True)
                    if episode == k
                )
                for k in range(trajectory.num_episodes)
            ),
            paid=tuple(episode.value for episode in trajectory.episodes),
            slip=max(prices, default=0.0),
            unusable=unusable_answers(trajectory),
        )


def unusable_answers(trajectory: Trajectory) -> tuple[int, ...]:
    """Return the number of answers in each episode that named no legal action or were cut; empty if there were none."""
    episodes = [step.episode for step in trajectory.steps if step.phase == "play" and step.invalid_reason is not None]
    return tuple(episodes.count(k) for k in range(trajectory.num_episodes)) if episodes else ()


def luck_adjusted_values(records: Records) -> dict[int, PlayedValue]:
    """Return the luck-adjusted values of a run's meta-episodes by their index, without those that failed.

    The recorded replies are executed again, as `mage verify --replay` does.

    Args:
        records: Records of a run of a panel whose pool is exact.

    Raises:
        ValueError: If the run has another outcome in this version, or no exact regret.
    """
    with reading(records.folder):
        setting = setting_of(records.about)
        pool = pool_of_run(records, setting, game_of(setting.panel.env_id, setting.options))
        values = CellValues(setting.panel.env_id, setting.options, pool)
        return values_of_lines(values, setting, records.lines, str(records.folder))


def values_of_lines(
    values: CellValues, setting: Setting, lines: Mapping[int, Line], where: str
) -> dict[int, PlayedValue]:
    """Return the luck-adjusted values of recorded meta-episodes by their index, without those that failed.

    Args:
        values: Decision values of the setting.
        lines: Recorded meta-episodes by their index.
        where: Their folder, for messages.
    """
    finished = {index: line for index, line in sorted(lines.items()) if line["failure"] is None}
    executed = execute_lines(list(finished.values()), setting, where)
    return {index: values.of(*replayed) for index, replayed in zip(finished, executed, strict=True)}


def payoffs(records: Records, success: bool) -> dict[int, PlayedValue]:
    """Return the values of a run's meta-episodes as they were paid, by their index.

    Args:
        success: True if success is the measure, else the return.
    """
    values = {}
    for index, line in sorted(records.lines.items()):
        if line["failure"] is None:
            paid = tuple(float(episode["success"] if success else episode["value"]) for episode in line["episodes"])
            values[index] = PlayedValue(total=sum(paid), episodes=paid, paid=paid)
    return values


@dataclass(frozen=True, kw_only=True)
class ScaledRun:
    """The played meta-episodes of a run beside all planned ones, with the scale of its game and pool."""

    unit: str
    hands: int
    """Hands per episode."""
    scale: Scale | None
    """None if memory is worth nothing there, as in a negative control."""
    tasks: Sequence[Task]
    """All planned meta-episodes."""
    weights: Mapping[str, float]
    """Weight of each opponent."""
    values: Mapping[int, PlayedValue]
    """Values by the index of the task, without those that failed or were not played."""

    @property
    def failed(self) -> int:
        """Return the number of planned meta-episodes without values."""
        return len(self.tasks) - len(self.values)

    def level(self) -> ScaleScore | None:
        """Return the level, or None without a scale."""
        scale = self.scale
        if scale is None:
            return None
        values = {index: level_of(scale, value) for index, value in self.values.items()}
        slips = {index: value.slip / scale.length for index, value in self.values.items()}
        # The regrets of a judged player are at least 0, so no level exceeds 1.
        return self._score(values, scale.least_level, 1.0, slips)

    def level_difference(self, other_run: ScaledRun) -> ScaleScore | None:
        """Return the level of this run less that of another agent's run of the same tasks; None without a scale."""
        scale = self.scale
        if scale is None:
            return None
        values = {
            index: level_of(scale, value) - level_of(scale, other_run.values[index])
            for index, value in self.values.items()
            if index in other_run.values
        }
        widest = 1.0 - scale.least_level
        return self._score(values, -widest, widest, {})

    def difference(self, other_run: ScaledRun, by_regrets: bool = False) -> ScaleScore | None:
        """Return the level of this run less that of another run of the same tasks, in episodes 2 to K.

        In episode 1 no memory exists yet, so the runs differ by luck alone. None without a scale.

        Args:
            by_regrets: True if neither run has a memory that depends on the opponent but for what was seen of it.
                Otherwise the posterior of the judge is not that of the agent.
        """
        scale = self.scale
        if scale is None:
            return None
        values = {
            index: later_level(scale, value, by_regrets) - later_level(scale, other_run.values[index], by_regrets)
            for index, value in self.values.items()
            if index in other_run.values
        }
        slips = {index: max(self.values[index].slip, other_run.values[index].slip) / scale.length for index in values}
        return self._score(values, -scale.widest_difference, scale.widest_difference, slips, paired=True)

    @property
    def unusable(self) -> int:
        """Return the number of answers that named no legal action or were cut."""
        return sum(sum(value.unusable) for value in self.values.values())

    def episode_value(self, episode: int) -> Estimate | None:
        """Return the value of an episode per hand against the met opponents; None if a meta-episode failed."""
        return self._mean(lambda value: value.episodes[episode] / self.hands)

    def gain(self) -> Estimate | None:
        """Return the last episode less the first per hand, as they were paid; None if a meta-episode failed."""
        return self._mean(lambda value: (value.paid[-1] - value.paid[0]) / self.hands)

    def _mean(self, value_of: Callable[[PlayedValue], float]) -> Estimate | None:
        """Return the mean over all meta-episodes. Those that failed could change it, so None if there are any."""
        if self.failed:
            return None
        score = self._score({index: value_of(value) for index, value in self.values.items()}, -np.inf, np.inf, {})
        return Estimate(score.mean, score.low, score.high, len(self.values))

    def _score(
        self,
        values: Mapping[int, float],
        lower_bound: float,
        upper_bound: float,
        slips: Mapping[int, float],
        paired: bool = False,
    ) -> ScaleScore:
        """Return the score of one value per meta-episode. Tasks without a value are missing."""
        groups: dict[tuple[str, int | None], list[int]] = {}
        for index, task in enumerate(self.tasks):
            groups.setdefault((task.opponent or "", task.seat), []).append(index)
        seats = {name: sum(opponent == name for opponent, _ in groups) for name, _ in groups}
        strata = []
        for (name, _), indices in groups.items():
            available = [index for index in indices if index in values]
            strata.append(
                Stratum(
                    opponent=name,
                    weight=self.weights[name] / seats[name],
                    values=tuple(values[index] for index in available),
                    missing=len(indices) - len(available),
                    slip=max((slips.get(index, 0.0) for index in available), default=0.0),
                )
            )
        half = None
        if len({task.seed for task in self.tasks}) < len(self.tasks) and len(values) == len(self.tasks):
            # Meta-episodes of one seed share their deals, so they are one cluster.
            tasks = [self.tasks[index] for index in sorted(values)]
            half = estimate(
                [values[index] for index in sorted(values)],
                [task.seed for task in tasks],
                [task.opponent or "" for task in tasks],
                self.weights,
            ).half
        return score_strata(strata, lower_bound, upper_bound, half, paired)


def level_of(scale: Scale, value: PlayedValue) -> float:
    """Return the level of a meta-episode. Its price of unusable answers ends at the least return in every hand.

    An answer without a legal action costs `INVALID_PRICE` in every game. By the rules alone it costs nothing in one
    game and an episode in another.
    """
    level = scale.level(value.total)
    return max(level - INVALID_PRICE * sum(value.unusable), min(level, scale.least_level))


def later_level(scale: Scale, value: PlayedValue, by_regrets: bool) -> float:
    """Return what episodes 2 to K contribute to the level of a meta-episode, but for a constant.

    Regrets have less luck than values against the opponent that was met: the best learner has none.
    """
    worth = -sum(value.regrets[1:]) if by_regrets else sum(value.episodes[1:])
    return worth / scale.length - INVALID_PRICE * sum(value.unusable[1:])


def run_of_cell(
    cell: AdaptCell, scale: Scale | None, tasks: Sequence[Task], values: Mapping[int, PlayedValue]
) -> ScaledRun:
    """Return the run of a cell from its planned tasks and the values of its meta-episodes."""
    pool = pool_of(cell)
    return ScaledRun(
        unit="success" if cell.success else make_game(cell.game, **cell.options).spec.unit,
        hands=1 if cell.success else cell.hands,
        scale=scale,
        tasks=tasks,
        weights={str(entry): weight for entry, weight in zip(pool.entries, pool.weights, strict=True)},
        values=values,
    )


def load_cell_run(records: Records, cell: AdaptCell, scale: Scale | None) -> ScaledRun:
    """Return a stored run of a cell. Raises ValueError as `luck_adjusted_values`."""
    values = payoffs(records, cell.success) if cell.control else luck_adjusted_values(records)
    with reading(records.folder):
        return run_of_cell(cell, scale, setting_of(records.about).tasks, values)
