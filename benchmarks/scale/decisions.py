"""The exact posterior, the best action and the cost at each decision of a run of the suite `adapt`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from mage_envs.benchmarks.evaluation.suites.adapt import cell_of
from mage_envs.benchmarks.evaluation.suites.environments import game_of
from mage_envs.benchmarks.exact.judged_hands import judge
from mage_envs.benchmarks.exact.regret import execute_run, pool_of_run
from mage_envs.benchmarks.records.about import setting_of
from mage_envs.benchmarks.records.record_store import Records, read_about
from mage_envs.benchmarks.scale.adaptation import CellValues


class Decision(NamedTuple):
    """One decision, judged by the rest of the meta-episode."""

    posterior: Mapping[str, float]
    """Probability of each opponent of the pool before the decision."""
    best: str
    """Best action, the first if several are equally good."""
    cost: float
    """Loss of the played action against the best one, in the game's unit."""


def decisions_of(folder: Path) -> dict[int, Sequence[Decision]]:
    """Return the decisions with a usable action of each meta-episode by its index in the panel.

    It is empty if the run is not one of a cell with a luck-adjusted score, or if this version has another outcome.
    """
    cell = cell_of(read_about(folder)["panel"]["name"])
    if cell is None or cell.control:
        return {}
    records = Records(folder)
    setting = setting_of(records.about)
    game = game_of(setting.panel.env_id, setting.options)
    decisions: dict[int, Sequence[Decision]] = {}
    try:
        pool = pool_of_run(records, setting, game)
        values = CellValues(setting.panel.env_id, setting.options, pool).whole
        finished = sorted(index for index, line in records.lines.items() if line["failure"] is None)
        for index, (trajectory, prompts) in zip(finished, execute_run(records, setting), strict=True):
            judgement = judge(values, trajectory, prompts)
            decisions[index] = [
                Decision(dict(zip(pool, belief, strict=True)), best, cost)
                for hand in judgement.hands
                # `regrets` has one more entry if the hand ended outside of the rules.
                for belief, best, cost in zip(hand.beliefs, hand.bests, hand.regrets, strict=False)
            ]
    except ValueError:
        # `mage verify` and the report's own line on verification say what is wrong with such a run.
        return {}
    return decisions
