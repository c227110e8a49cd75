"""Coverage of the suite's interval: how often it contains the exact level, on many panels that differ in their seeds.

    python -m dev.adapt_coverage    # benchmarks/results/adapt_coverage.txt, in 40 CPU minutes

The cells are those with a luck-adjusted level, besides `keys`. If the level of a reference has no luck in a cell, that
is, if its exact standard error is 0, one panel serves all seeds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dev.adapt_errors import level_moments
from mage_envs.benchmarks.evaluation.run.agents import GeneratorAgent, PolicyAgent, make_agent
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate
from mage_envs.benchmarks.evaluation.suites.adapt import CELLS, META_EPISODES
from mage_envs.benchmarks.evaluation.suites.panels import cell_panel
from mage_envs.benchmarks.exact.recorded_generator import WatchedGenerator
from mage_envs.benchmarks.scale.adapt_table import mean_over_families
from mage_envs.benchmarks.scale.adaptation import CellValues, ScaledRun, run_of_cell
from mage_envs.benchmarks.scale.scale import LEAST_LEVEL, ScaleScore, family_weights
from mage_envs.benchmarks.scale.stored_suites import cell_scale
from mage_envs.cli.tables import Block, TextTable, as_text
from mage_envs.core import Task
from mage_envs.files.atomic import write_atomically
from mage_envs.random.streams import Streams
from mage_envs.registry import make_game
from mage_envs.text.generation import Completion, Generator, Prompt

TABLE = Path(__file__).parents[1] / "benchmarks" / "results" / "adapt_coverage.txt"
ADJUSTED = tuple(name for name, cell in CELLS.items() if not cell.control and not cell.players)
"""Cells with a luck-adjusted level whose ends are exact for all deals; those of `keys` are means over a sample."""
SEEDS = {"blind": 200, "myopic": 400, "bayes": 200}
"""Reference to the number of its panels. Those of `myopic` are more, because its coverage is nearest to the limit."""
SLIP_CELLS, SLIP_PANELS = ("dilemma", "noisy", "ultimatum", "soft", "inspection", "kuhn"), 60
"""Cells, and panels of each, in which the best learner slips."""
SLIPS = 21
"""Role of the random stream of slips."""
ROUNDING = 1e-6
"""Largest standard error, and distance of an interval from the exact level, that is rounding."""


class Coverage(NamedTuple):
    """How often the intervals of a reference contain its exact level."""

    reference: str
    truth: float
    """Exact level, the mean over families."""
    covered: int
    seeds: int
    half: float
    """Mean half width of the intervals."""
    luck: int
    """Number of cells in which the level differs between panels."""


def repeat_levels(name: str, spec: str, panels: int, slip: float = 0.0) -> list[ScaleScore]:
    """Return the levels of an agent on many panels of a cell that differ in their seeds.

    Args:
        slip: Probability of a random legal action in place of the agent's own.
    """
    return levels_on(name, spec, panels_of(name, panels), slip)


def panels_of(name: str, panels: int) -> list[Sequence[Task]]:
    """Return the tasks of panels of a cell that differ in their seeds."""
    panel = cell_panel(CELLS[name], META_EPISODES)
    size = len(panel.tasks())
    # A panel that is `panels` times as long consists of that many panels, because no seed occurs twice.
    tasks = replace(panel, size=size * panels).tasks()
    return [tasks[start : start + size] for start in range(0, len(tasks), size)]


def levels_on(name: str, spec: str, panels: Sequence[Sequence[Task]], slip: float = 0.0) -> list[ScaleScore]:
    """Return the level of an agent on each panel of a cell. Further arguments as in `repeat_levels`."""
    return [_known(run.level()) for run in runs_on(name, spec, panels, slip)]


def runs_on(
    name: str, spec: str, panels: Sequence[Sequence[Task]], slip: float = 0.0, memory: str = "history", role: int = 0
) -> Iterator[ScaledRun]:
    """Yield the run of an agent on each panel of a cell.

    Args:
        slip: Probability of a random legal action in place of the agent's own.
        memory: Memory of the environment. Under `none/history` a new policy plays each episode.
        role: Number that distinguishes the slips of several runs of the same tasks.
    """
    cell, scale = CELLS[name], cell_scale(name)
    panel = cell_panel(cell, META_EPISODES)
    options = {**panel.env_kwargs, "memory": memory}
    values = CellValues(panel.env_id, options, panel.weights())
    agent, game = make_agent(spec), make_game(cell.game, **cell.options)
    for part in panels:
        players = agent.generator(game, memory) if isinstance(agent, PolicyAgent) else agent.generator(game)
        watched = WatchedGenerator(SlippingGenerator(players, slip, role))
        trajectories = evaluate(GeneratorAgent(watched, agent.name), part, options, batch=len(part))
        judgements = {
            slot: values.of(trajectory, watched.seen[slot, 0]) for slot, trajectory in enumerate(trajectories)
        }
        yield run_of_cell(cell, scale, part, judgements)


def _known(score: ScaleScore | None) -> ScaleScore:
    """Return the score. Raise ValueError if the cell has none."""
    if score is None:
        raise ValueError("The cell has no scale.")
    return score


class SlippingGenerator:
    """A generator that plays a random legal action with some probability. A policy does not learn of its slips."""

    def __init__(self, generator: Generator, slip: float, role: int = 0) -> None:
        self._generator, self._slip, self._role = generator, slip, SLIPS + role

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        replies = self._generator.generate(prompts)
        return [self._slip_reply(prompt, reply) for prompt, reply in zip(prompts, replies, strict=True)]

    def _slip_reply(self, prompt: Prompt, reply: Completion) -> Completion:
        if prompt.phase != "play":
            return reply
        rng = Streams(*prompt.seed[:2]).at(self._role, prompt.seed[2]).generator()
        if rng.random() >= self._slip:
            return reply
        legal, tag = prompt.legal_actions, prompt.info.get("answer_tag")
        text = legal[int(rng.integers(len(legal)))]
        return Completion(text if tag is None else f"<{tag}>{text}</{tag}>")


def count_covered(levels: Sequence[ScaleScore], truth: float) -> tuple[int, float]:
    """Return how many intervals contain the exact level, and the mean half width."""
    ends = [(level.low, level.high) for level in levels if level.low is not None and level.high is not None]
    if len(ends) < len(levels):
        raise ValueError("A panel has no interval.")
    count = sum(low - ROUNDING <= truth <= high + ROUNDING for low, high in ends)
    return count, float(np.mean([(high - low) / 2 for low, high in ends]))


def exact_level(name: str, reference: str) -> tuple[float, float]:
    """Return the exact level of `blind`, `myopic` or `bayes` in a cell, and its standard error on one panel."""
    # Every decision of the optimum for the sum has the regret 0.
    return (1.0, 0.0) if reference == "bayes" else level_moments(CELLS[name], cell_scale(name), reference)


def coverage(reference: str, seeds: int, names: Sequence[str] = ADJUSTED) -> Coverage:
    """Return the coverage of the mean over families.

    Args:
        reference: `blind`, `myopic` or `bayes`.
        seeds: Number of panels of each cell.
    """
    exact = {name: exact_level(name, reference) for name in names}
    luck = {name: error > ROUNDING for name, (_, error) in exact.items()}
    levels_by_cell = {name: repeat_levels(name, _spec(name, reference), seeds if luck[name] else 1) for name in names}
    weights = family_weights({name: CELLS[name].family for name in names})
    suites = [
        mean_over_families({name: levels_by_cell[name][seed if luck[name] else 0] for name in names}, LEAST_LEVEL)
        for seed in range(seeds)
    ]
    truth = sum(weights[name] * max(level, LEAST_LEVEL) for name, (level, _) in exact.items())
    count, half = count_covered([level for level in suites if level is not None], truth)
    return Coverage(reference=reference, truth=truth, covered=count, seeds=seeds, half=half, luck=sum(luck.values()))


def slip_coverage(name: str, slip: float, panels: int) -> tuple[Coverage, Coverage]:
    """Return the coverage in one cell of the best learner with slips: of its level, and of its own memory's value.

    The exact values are estimated from all panels.
    """
    spec, tasks = _spec(name, "bayes"), panels_of(name, panels)
    main = list(runs_on(name, spec, tasks, slip))
    # The agent without memory slips at other moments.
    empty = runs_on(name, spec, tasks, slip, memory="none/history", role=1)
    levels = [_known(run.level()) for run in main]
    adaptations = [_known(run.difference(none, by_regrets=True)) for run, none in zip(main, empty, strict=True)]
    text = f"bayes, {slip:.0%} slips, {name}"
    return _in_one_cell(text, levels), _in_one_cell(f"{text}, own memory", adaptations)


def _in_one_cell(text: str, scores: Sequence[ScaleScore]) -> Coverage:
    """Return the coverage of scores whose exact value is estimated by their mean."""
    truth = float(np.mean([score.mean for score in scores]))
    count, half = count_covered(scores, truth)
    return Coverage(reference=text, truth=truth, covered=count, seeds=len(scores), half=half, luck=1)


def _spec(name: str, reference: str) -> str:
    """Return the agent that plays a reference in a cell."""
    spec = CELLS[name].agent(reference)
    if spec is None:
        raise ValueError(f"{name} has no player {reference}.")
    return spec


def table_of(rows: Sequence[Coverage]) -> list[Block]:
    """Return the table of the coverages."""
    cells = [
        [row.reference, f"{row.truth:.3f}", f"{row.covered} of {row.seeds}", f"{row.half:.3f}", str(row.luck)]
        for row in rows
    ]
    return [
        f"Coverage of the 95% interval of the level over families of {len(ADJUSTED)} cells,",
        f"on panels of {META_EPISODES} meta-episodes per cell that differ in their seeds",
        "",
        TextTable(["agent", "level", "covered", "error", "cells"], cells),
        "",
        "level: the exact one; with slips, the mean over all panels. covered: intervals that contain it.",
        "own memory: the same for the adaptation by the own memory, in place of the level.",
        "error: mean half width of the intervals. cells: those in which the level has luck, by its exact standard",
        "error. One panel serves all seeds elsewhere. Rows with slips are of one cell, which the name ends with.",
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slips", action="store_true", help="only the rows with slips")
    arguments = parser.parse_args()
    slips = [row for name in SLIP_CELLS for slip in (0.02, 0.1) for row in slip_coverage(name, slip, SLIP_PANELS)]
    exact = [] if arguments.slips else [coverage(name, seeds) for name, seeds in SEEDS.items()]
    blocks = table_of([*exact, *slips])
    if not arguments.slips:
        write_atomically(TABLE, as_text(blocks))
    sys.stdout.write(as_text(blocks))
