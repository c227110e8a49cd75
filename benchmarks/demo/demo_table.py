"""The demo's evaluation: level and adaptation of the trained model, and its play against opponents of no training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mage_envs.benchmarks.evaluation.run.agents import SavedModelAgent
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate
from mage_envs.benchmarks.evaluation.run.options import EvalOptions
from mage_envs.benchmarks.evaluation.scoring.estimates import Estimate
from mage_envs.benchmarks.evaluation.scoring.scores import ScoreRow, Summary, summarise
from mage_envs.benchmarks.evaluation.suites.environments import game_of
from mage_envs.benchmarks.evaluation.suites.panels import Panel, panel, weights_of
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.runs.measuring import measure_judged
from mage_envs.benchmarks.scale.judged_play import JudgedAgent
from mage_envs.cli.tables import Block, TextTable

TRAINING = tuple(weights_of("pool:kuhn/demo"))
"""Opponents that the model is trained against."""
HELD_OUT = ("kuhn/rock", "kuhn/maniac", "kuhn/caller", "kuhn/bluffer", "uniform", "cfr")
"""Opponents that the model is never trained against: extremes near the training opponents, not new kinds."""
PANEL_SEED = 20_000
"""Seed of the evaluation panels for run seed 0. The run's seed is added to it."""
STATES = 5_000_000
"""Maximum number of belief states. The demo has 3.6 million, which take seconds."""
JUDGED = 12
"""One of so many meta-episodes is judged, because luck-adjusted values vary less than returns."""


@dataclass(frozen=True)
class DemoResult:
    """Measurements of the demo."""

    judged: JudgedAgent
    """Level and adaptation against the training opponents, with both controls."""
    training: Summary
    """Chips as they were paid, against the training opponents."""
    held_out: Summary
    """The same against opponents of no training."""
    critic: bool
    """True if the exact critic was used in training."""
    seed: int

    def to_json(self) -> dict[str, Any]:
        """Return all measurements as JSON values."""
        rows = {row.agent: [value and value.mean for value in row.episodes] for row in self.judged.control_rows()}
        return {
            "judged": self.judged.to_json() | {"controls": rows},
            "training": asdict(self.training),
            "held_out": asdict(self.held_out),
            "critic": self.critic,
            "seed": self.seed,
        }


def evaluate_demo(folder: Path, rows: int, seed: int, critic: bool, on_step: Callable[[str, bool], None]) -> DemoResult:
    """Play the saved model on fresh deals, each from both seats.

    Args:
        folder: Folder of the saved model.
        rows: Meta-episodes per training opponent and seat.
        seed: Seed of the run, which selects the deals.
        critic: True if the model was trained with the exact critic.
        on_step: Function that writes a progress line. Its second argument is True if the line is a milestone.
    """
    agent = SavedModelAgent(folder)
    kwargs = dict(agent.settings.env_kwargs)
    env_id = agent.settings.env_id
    game = game_of(env_id, kwargs)
    pool = dict.fromkeys(TRAINING, 1.0 / len(TRAINING))

    def play(label: str, opponents: Sequence[str], count: int) -> Summary:
        tasks = panel(env_id, opponents, count, PANEL_SEED + seed)

        def report(finished: int, total: int) -> None:
            on_step(f"evaluating {label}: {finished}/{total} meta-episodes", finished == total)

        trajectories = evaluate(agent, tasks, kwargs, on_step=report)
        return summarise(trajectories, game, pool=pool, agent=agent.name)

    training = play("training opponents", TRAINING, rows)
    held_out = play("held-out opponents", HELD_OUT, max(rows // 3, 1))
    on_step("judging the decisions, with memory, without, and with another opponent's", True)
    judged_panel = Panel(
        env_id=env_id,
        about="",
        seed=PANEL_SEED + seed,
        rows_per_cell=max(rows // JUDGED, 2),
        opponents=pool,
        seats=(0, 1),
        size=0,
    )
    options = EvalOptions(agents=(str(folder),), controls=True, baselines=False)
    judged_agent = measure_judged(options, agent, Setting(judged_panel, "demo", kwargs), STATES)[1]
    if judged_agent is None:
        raise ValueError(f"The decisions of {agent.name} cannot be judged in {env_id}.")
    return DemoResult(judged=judged_agent, training=training, held_out=held_out, critic=critic, seed=seed)


def _cell(estimate: Estimate | None) -> str:
    if estimate is None:
        return "n/a"
    spread = "" if estimate.half is None else f" ±{estimate.half:.3f}"
    return f"{estimate.mean:+.3f}{spread}"


def _line(name: str, row: ScoreRow) -> list[str]:
    measures = [episode.returns for episode in row.episodes]
    ceiling = measures[-1].ceiling
    return [
        name,
        *(_cell(measure.estimate) for measure in measures),
        _cell(row.gain),
        "n/a" if ceiling is None else f"{ceiling:+.3f}",
    ]


def blocks(result: DemoResult, notes: bool = True) -> list[Block]:
    """Return the sentence, the table of level and adaptation, and the chips against each opponent.

    Args:
        notes: True to explain rows and columns below.
    """
    count = len(result.training.overall.episodes)
    head = [
        "chips per hand",
        *(f"episode {k}" for k in range(1, count + 1)),
        f"gain 1 to {count}",
        "knows the opponent",
    ]
    lines: list[list[str] | str] = ["trained against"]
    lines += [_line(f"  {row.opponent}", row) for row in result.training.rows]
    lines += [_line("  all", result.training.overall), "never trained against"]
    lines += [_line(f"  {row.opponent}", row) for row in result.held_out.rows]
    table, *legend = result.judged.blocks()
    report: list[Block] = [f"{result.judged.sentence()}.", "", table, "", TextTable(head, lines)]
    if not notes:
        return report
    return [
        *report,
        *legend,
        "Episodes in the first table: luck-adjusted chips per hand, that is, without the luck of cards and replies. In",
        "the second one: chips as they were paid, from more meta-episodes; the gain is paired within the meta-episode.",
        "knows the opponent: the exact value of knowing the opponent.",
        "The training used the exact critic; the model and its prompts know nothing of it."
        if result.critic
        else "The training used sampled returns alone.",
    ]
