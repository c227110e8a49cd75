"""The demo's evaluation: training and held-out opponents, two controls, and the adaptation table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.evaluation.run.agents import SavedModelAgent
from benchmarks.evaluation.run.environments import game_of
from benchmarks.evaluation.run.evaluate import evaluate
from benchmarks.evaluation.scoring.estimates import Estimate
from benchmarks.evaluation.scoring.scores import ScoreRow, Summary, summarise
from benchmarks.evaluation.suites import panel, weights_of
from benchmarks.evaluation.tables.summary_table import way_text
from benchmarks.exact.regret import EpisodeRegret, regret
from mage_envs.cli.tables import Block, TextTable
from opponents.exact import bayes_value

TRAINING = tuple(weights_of("pool:kuhn/demo"))
"""Opponents that the model is trained against."""
HELD_OUT = ("kuhn/rock", "kuhn/maniac", "kuhn/caller", "kuhn/bluffer", "uniform", "cfr")
"""Opponents that the model is never trained against: extremes near the training opponents, not new kinds."""
PANEL_SEED = 20_000
"""Seed of the evaluation panels for run seed 0. The run's seed is added to it."""


@dataclass(frozen=True)
class DemoResult:
    """Measurements of the demo."""

    training: Summary
    held_out: Summary
    other_memory: ScoreRow
    """Control: the opponent is replaced before the last episode, so the memory describes the wrong opponent."""
    no_memory: ScoreRow
    """Control: the same model without any memory of the earlier episodes."""
    regret: tuple[Estimate, ...]
    """Regret of the model's decisions in each episode, in chips per hand."""
    adjusted: tuple[Estimate, ...]
    """Best value minus regret in each episode, which estimates the chips without the luck of cards and replies."""
    optimal: tuple[float, ...]
    """Chips per hand in each episode of the learner that maximises their sum."""
    critic: bool
    """True if the exact critic was used in training."""
    seed: int


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
    pool = dict.fromkeys(TRAINING, 1.0)
    last = int(kwargs.get("num_episodes", 3)) - 1

    def play(label: str, opponents: Sequence[str], count: int, **changes: Any) -> Summary:
        tasks = panel(env_id, opponents, count, PANEL_SEED + seed)

        def report(done: int, total: int) -> None:
            on_step(f"evaluating {label}: {done}/{total} meta-episodes", done == total)

        played = evaluate(agent, tasks, kwargs | changes, on_step=report)
        return summarise(played, game, pool=pool, agent=agent.name)

    def judge() -> tuple[EpisodeRegret, ...]:
        def report(done: int, total: int) -> None:
            on_step(f"judging decisions: {done}/{total} meta-episodes", done == total)

        # A sixth of the meta-episodes, because regret has less variance than returns.
        tasks = panel(env_id, TRAINING, max(rows // 6, 1), PANEL_SEED + seed)
        return regret(agent, tasks, pool, kwargs, on_step=report).episodes

    hands = int(kwargs["hands_per_episode"])
    # Each training opponent builds the memory, then each of the others replaces it in the last episode.
    pairs = [f"switch:{a},{b},{last}" for a in TRAINING for b in TRAINING if a != b]
    judged = judge()
    return DemoResult(
        training=play("training opponents", TRAINING, rows),
        held_out=play("held-out opponents", HELD_OUT, max(rows // 3, 1)),
        other_memory=play("with another opponent's memory", pairs, max(rows // 3, 1)).overall,
        no_memory=play("without memory", TRAINING, max(rows // 2, 1), memory="none").overall,
        regret=tuple(one.regret for one in judged),
        adjusted=tuple(one.adjusted for one in judged if one.adjusted is not None),
        optimal=tuple(value / hands for value in bayes_value(game, pool, episodes=last + 1, hands=hands).per_episode),
        critic=critic,
        seed=seed,
    )


def _cell(estimate: Estimate | None) -> str:
    if estimate is None:
        return "n/a"
    spread = "" if estimate.half is None else f" ±{estimate.half:.3f}"
    return f"{estimate.mean:+.3f}{spread}"


def _number(value: float | None, form: str = "+.3f") -> str:
    return "n/a" if value is None else format(value, form)


def _line(name: str, row: ScoreRow, shared: bool = False) -> list[str]:
    measures = [episode.returns for episode in row.episodes]
    final = measures[-1]
    share = way_text(final.share_estimate) if shared else ""
    cells = [_cell(measure.estimate) for measure in measures]
    return [name, *cells, _cell(row.gain), _number(final.uninformed), _number(final.ceiling), share]


def _optimal(result: DemoResult) -> list[str]:
    best = result.training.overall.episodes[-1].returns
    blind, known = best.uninformed, best.ceiling
    share = None if blind is None or known is None else (result.optimal[-1] - blind) / (known - blind)
    gain = result.optimal[-1] - result.optimal[0]
    return ["  Bayes-optimal", *(f"{value:+.3f}" for value in (*result.optimal, gain)), "", "", _number(share, ".0%")]


def meta_episodes(rows: int) -> int:
    """Return the number of meta-episodes that `evaluate_demo` plays and scores."""
    pairs = len(TRAINING) * (len(TRAINING) - 1)
    per_seat = len(TRAINING) * (rows + max(rows // 2, 1)) + (len(HELD_OUT) + pairs) * max(rows // 3, 1)
    return 2 * per_seat


def blocks(result: DemoResult, notes: bool = True) -> list[Block]:
    """Return the adaptation table, followed by an explanation of its rows and columns if `notes` is set."""
    count = len(result.training.overall.episodes)
    head = ["chips per hand", *(f"episode {k}" for k in range(1, count + 1)), f"gain 1 to {count}"]
    head += ["best blind", "best response", "share"]
    lines: list[list[str] | str] = ["trained against"]
    lines += [_line(f"  {row.opponent}", row) for row in result.training.rows]
    lines += [_line("  all", result.training.overall, shared=True), _optimal(result)]
    lines += [["  luck-adjusted", *map(_cell, result.adjusted), "", "", "", ""]]
    lines += [["  regret of decisions", *map(_cell, result.regret), "", "", "", ""], "controls"]
    lines += [_line(f"  another's memory in episode {count}", result.other_memory, shared=True)]
    lines += [_line("  no memory", result.no_memory, shared=True), "never trained against"]
    lines += [_line(f"  {row.opponent}", row) for row in result.held_out.rows]
    if not notes:
        return [TextTable(head, lines)]
    return [
        TextTable(head, lines),
        "",
        "± is half a 95% interval, clustered by meta-episode (those with the same deals are one cluster); the gain",
        "is paired within the meta-episode. 'best blind' is what the best policy without information earns (exact,",
        "for the training pool), 'best response' the exact value of knowing the opponent, 'share' the way from the",
        "one to the other that the last episode has come. 'Bayes-optimal' is the exact value of the policy that knows",
        "the pool and maximises the sum of its episodes, 'regret' what the model's decisions cost under the exact",
        "posterior of what it had seen, and 'luck-adjusted' what the best play would have earned with that less the",
        "regret: the chips of 'all' again, without the luck of cards and replies, from a sixth of the meta-episodes.",
        "The training used the exact critic; the model and its prompts know nothing of it."
        if result.critic
        else "The training used sampled returns alone.",
    ]


def requirements(result: DemoResult) -> Mapping[str, bool]:
    """Return the requirements of `make demo-seeds`, with True for each that the result meets."""
    overall, rock = result.training.overall, result.held_out.rows[HELD_OUT.index("kuhn/rock")]
    gain, rock_gain = overall.gain, rock.gain
    assert gain is not None
    assert rock_gain is not None
    last = overall.episodes[-1].returns.estimate.mean
    return {
        f"gain over the training opponents {gain.mean:+.3f} >= 0.07": gain.mean >= 0.07,
        f"its interval [{_number(gain.low)}, {_number(gain.high)}] is above 0": gain.low is not None and gain.low > 0,
        f"last episode {last:+.3f} >= 0.22": last >= 0.22,
        f"regret in it {result.regret[-1].mean:.3f} <= 0.025": result.regret[-1].mean <= 0.025,
        f"with another opponent's memory {result.other_memory.episodes[-1].returns.estimate.mean:+.3f} <= 0.10": (
            result.other_memory.episodes[-1].returns.estimate.mean <= 0.10
        ),
        f"gain against kuhn/rock {rock_gain.mean:+.3f} >= 0.10": rock_gain.mean >= 0.10,
    }
