"""The suite `adapt`: the rows of an agent, its controls, and their runs in one folder."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, Literal

from mage_envs.benchmarks.evaluation.run.agents import (
    Agent,
    EndpointAgent,
    PolicyAgent,
    SavedModelAgent,
    make_agent,
)
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate
from mage_envs.benchmarks.evaluation.run.hugging_face import HuggingFaceAgent
from mage_envs.benchmarks.evaluation.run.options import PlayOptions
from mage_envs.benchmarks.evaluation.run.preflight import Price
from mage_envs.benchmarks.evaluation.scoring.call_stats import without_texts
from mage_envs.benchmarks.evaluation.scoring.scores import Summary
from mage_envs.benchmarks.evaluation.suites.adapt import ALL_CELLS, NAMED, AdaptCell
from mage_envs.benchmarks.evaluation.suites.paper import named_suite
from mage_envs.benchmarks.evaluation.suites.rows import POOL, SuiteRow
from mage_envs.benchmarks.records.record_store import Records
from mage_envs.benchmarks.report.document import REPORT, Heading, can_write_reports, write_report
from mage_envs.benchmarks.report.runs import read_runs
from mage_envs.benchmarks.runs.suite_folder import begin, estimate_size, finish, plan_of, play_runs
from mage_envs.benchmarks.scale.adapt_parts import add_questions, read_parts
from mage_envs.benchmarks.scale.adapt_table import AdaptResult
from mage_envs.benchmarks.scale.adaptation import ScaledRun, load_cell_run
from mage_envs.benchmarks.scale.stored_suites import NONE, OTHER, cell_scale
from mage_envs.benchmarks.suites.planning import PlannedRun, plan_runs, short_names
from mage_envs.cli.tables import as_text
from mage_envs.files.atomic import write_atomically
from mage_envs.files.locking import FolderLock
from mage_envs.registry import make_game
from mage_envs.text.visible import one_line
from mage_envs.wrappers.controls import SOURCED

MEMORY = "history"
"""Default memory: transcripts of the earlier episodes, which need no call of the model."""
HIDDEN = "hidden"
"""Name of the condition in which no prompt describes the pool."""
TABLE, VALUES = "adapt.txt", "adapt.json"
SuiteName = Literal["adapt", "adapt-mini", "adapt-learning"]
VERDICT = (NONE, OTHER)
"""Controls that the verdict needs."""


@dataclass(frozen=True, kw_only=True)
class AdaptPlan:
    """The runs of one agent in the suite."""

    suite: SuiteName
    label: str
    """Name of the agent in tables."""
    agent: Agent | None
    """The agent, or None for one of `NAMED`."""
    rows: Sequence[SuiteRow]
    """Main rows, then those of the controls."""
    runs: Sequence[PlannedRun]
    elicits: bool = False
    """True if the agent states beliefs in the main condition."""

    def to_json(self) -> dict[str, Any]:
        """Return the contents of suite.json before anything is played."""
        return plan_of(self.suite, False, self.rows, self.runs)

    def score(self, folder: Path, summaries: Mapping[Path, Summary] = MappingProxyType({})) -> AdaptResult:
        """Return the result of the played runs, and write it with a report into their folder.

        Args:
            folder: Folder of the suite.
            summaries: Scores of the runs by their folder, for the report (default: computed from the records).
        """
        parts = read_parts(self.runs, folder, self.rows[0].name) if self.elicits else {}
        result = AdaptResult(self.suite, self.label, load_runs(self.runs, folder), parts)
        write_atomically(folder / TABLE, as_text(result.blocks()))
        write_atomically(folder / VALUES, json.dumps(result.to_json(), indent=1) + "\n")
        if can_write_reports():
            folders = [folder / run.folder for run in self.runs]
            write_report(
                folder / REPORT, read_runs(folders, summaries=summaries), head=Heading(f"{result.sentence()}.")
            )
        return result


def plan_adapt(
    suite: SuiteName,
    name: str,
    agent: Agent | None = None,
    *,
    memory: str | None = None,
    pool: str | None = None,
    controls: Sequence[str] = VERDICT,
    elicit: bool = False,
    sampling: Mapping[str, float] | None = None,
) -> AdaptPlan:
    """Return the plan of an agent.

    Args:
        suite: Name of the suite.
        name: Specification of the agent.
        agent: The agent (default: the one that `name` specifies).
        memory: Memory of the environment, or None for the agent's own, else `MEMORY`.
        pool: Condition of the main run, `both`, or None for the agent's default.
        controls: Controls beside the main run.
        elicit: True to ask for beliefs in the main condition.
        sampling: Sampling of a model.

    Raises:
        ValueError: If the agent plays no cell of the suite.
    """
    if agent is None and not is_reference(name):
        agent = make_agent(name, sampling)
    named = named_suite(suite)
    shorts = short_names(named)
    rows = rows_of(name, agent, memory, sampling, pool or default_pool(agent, suite), shorts)
    rows += controls_of(rows[0], controls, list(shorts.values()))
    runs = plan_runs(named, rows, None, named.protocols, named.lengths, agent=agent)
    if not runs:
        raise ValueError(f"{name} plays no cell of {suite}.")
    if elicit:
        runs = add_questions(runs, rows[0].name)
    label = name if agent is None else agent.name
    return AdaptPlan(suite=suite, label=label, agent=agent, rows=rows, runs=runs, elicits=elicit)


def play_adapt(plan: AdaptPlan, out: Path | None, options: PlayOptions) -> tuple[AdaptResult, int]:
    """Play the runs of a plan that are missing, and return the result and the exit status.

    Args:
        plan: The plan.
        out: Folder for the runs, or None for a temporary one.
        options: Options of the play.
    """
    # A run that goes on has stated its size before, and its calls would be paid for twice.
    if plan.agent is not None and is_model(plan.agent) and not options.resume:
        text = expectation(plan.runs, options.price) + estimate_time(plan.runs, plan.agent)
        if set(VERDICT) <= {run.row.name for run in plan.runs}:
            text += "; the runs of the verdict are included (--no-controls leaves them out)"
            if isinstance(plan.agent, EndpointAgent):
                # No memory exists yet, so the prompts and seeds are those of the main run.
                text += ", and their first episodes come from the cache"
        sys.stderr.write(f"{one_line(plan.label)}, {plan.suite}: {text}\n")
    # No baseline of repeated tasks is a reference here.
    with folder_of(out) as folder, FolderLock(folder):
        stored = plan.to_json()
        begin(folder, stored, options.resume)
        suite_cells, statuses = play_runs(plan.runs, folder, replace(options, baselines=False))
        finish(folder, stored, plan.runs)
        summaries = {folder / run.folder: cell.summary for run, cell in zip(plan.runs, suite_cells, strict=True)}
        result = plan.score(folder, summaries)
    if out is not None:
        sys.stderr.write(f"wrote {out / VALUES}\n")
    return result, min((status for status in statuses if status), default=0)


def is_model(agent: Agent) -> bool:
    """Return True if the agent is a model, whose calls have a price."""
    return isinstance(agent, EndpointAgent | HuggingFaceAgent | SavedModelAgent)


def is_reference(name: str) -> bool:
    """Return True for `policy:NAME` with a name of `NAMED`."""
    return name.removeprefix("policy:") in NAMED and name.startswith("policy:")


def default_pool(agent: Agent | None, suite: str) -> str:
    """Return the conditions that an agent plays by default."""
    if agent is None or isinstance(agent, PolicyAgent):
        return HIDDEN
    # The small suite has a limit of calls.
    return POOL if suite == "adapt-mini" else "both"


def rows_of(
    name: str,
    agent: Agent | None,
    memory: str | None,
    sampling: Mapping[str, float] | None,
    pool: str,
    shorts: Mapping[str, str],
) -> tuple[SuiteRow, ...]:
    """Return one row of the suite for each condition.

    Args:
        name: Specification of the agent.
        agent: The agent, or None for one of `NAMED`.
        memory: Memory, or None for the agent's own, else `MEMORY`.
        sampling: Sampling of a model.
        pool: Condition, or `both`.
        shorts: Full and short name of each panel.
    """
    agents: str | Mapping[str, str] = name
    if agent is None:
        reference = name.removeprefix("policy:")
        specs = {short: ALL_CELLS[short].agent(reference) for short in shorts.values()}
        agents = {short: spec for short, spec in specs.items() if spec is not None}
    # A saved model brings the memory of its training.
    chosen_memory = memory or (None if isinstance(agent, SavedModelAgent) else MEMORY)
    conditions = (POOL, HIDDEN) if pool == "both" else (pool,)
    return tuple(
        SuiteRow(condition, agents, memory=chosen_memory, sampling=sampling, pool=POOL if condition == POOL else None)
        for condition in conditions
    )


def controls_of(main: SuiteRow, names: Sequence[str], cells: Sequence[str]) -> tuple[SuiteRow, ...]:
    """Return one row of the suite for each control, with the options of the main one.

    Args:
        main: Main row. Controls that need memories copy them from its runs.
        names: Names of `PAIRED`.
        cells: Names of the suite's cells.
    """
    rows = []
    for name in names:
        agents = {
            cell: spec
            for cell in cells
            if (spec := main.agent_at(cell)) is not None and has_control(ALL_CELLS[cell], name)
        }
        if name == "neutral":
            rows.append(replace(main, name=name, agent=agents, env_kwargs={**main.env_kwargs, "style": name}))
        else:
            source = main.name if name in SOURCED else None
            rows.append(replace(main, name=name, agent=agents, control=name, source=source))
    return tuple(rows)


def has_control(cell: AdaptCell, name: str) -> bool:
    """Return True if a cell can be played under a control."""
    # Negative controls are without a scale, and some games without neutral words.
    if cell.control:
        return False
    return name != "neutral" or bool(make_game(cell.game, **cell.options).spec.neutral)


def expectation(
    cells: Sequence[PlannedRun], price: Price | None, write: Callable[[str], object] = lambda line: None
) -> str:
    """Return the expected calls, tokens and price of all runs, from random play.

    Args:
        cells: Runs.
        price: Price of tokens, or None.
        write: Function that receives one line per run.
    """
    count = sum(len(cell.setting.tasks) for cell in cells)
    size = estimate_size(cells, price, write)
    if size is None:
        return f"{count:,} meta-episodes, no model"
    cost = ", no price (--price IN,OUT)" if size.price is None else f", price {size.price:,.2f}"
    return (
        f"{count:,} meta-episodes, about {size.calls:,.0f} calls, {size.prompt_tokens:,.0f} prompt tokens, at most "
        f"{size.reply_tokens:,.0f} reply tokens{cost}"
    )


def estimate_time(cells: Sequence[PlannedRun], agent: Agent) -> str:
    """Return the expected time of all runs, from one meta-episode of the run with the fewest calls."""
    shortest = min(cells, key=lambda cell: cell.setting.most_calls / len(cell.setting.tasks))
    [trajectory] = evaluate(agent, shortest.setting.tasks[:1], shortest.setting.options, reduce=without_texts)
    size = estimate_size(cells, None, lambda line: None)
    if trajectory.failure is not None or size is None or not trajectory.steps:
        return ", time not known"
    slots = agent.slots if isinstance(agent, EndpointAgent) else 1
    hours = size.calls * sum(trajectory.seconds) / len(trajectory.steps) / slots / 3600
    return f", {hours:.2g} hours by the time of the first {len(trajectory.steps)} calls"


@contextmanager
def folder_of(out: Path | None) -> Iterator[Path]:
    """Yield the folder of the runs, or a temporary one."""
    if out is not None:
        yield out
        return
    with TemporaryDirectory(prefix="mage-adapt-") as temporary:
        yield Path(temporary)


def load_runs(cells: Sequence[PlannedRun], folder: Path) -> dict[str, dict[str, ScaledRun]]:
    """Return all runs below a folder, by condition and cell."""
    runs: dict[str, dict[str, ScaledRun]] = {}
    for cell in cells:
        scaled_run = load_cell_run(Records(folder / cell.folder), ALL_CELLS[cell.panel], cell_scale(cell.panel))
        runs.setdefault(cell.row.name, {})[cell.panel] = scaled_run
    return runs
