"""`mage adapt`: does an agent adapt to whom it plays? Its level of play, and what its memory is worth to it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal

import typer

from mage_envs.benchmarks import figures
from mage_envs.benchmarks.evaluation.run.agents import Agent, EndpointAgent, SavedModelAgent, make_agent, split_memory
from mage_envs.benchmarks.evaluation.run.dry_run import NOTE
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate
from mage_envs.benchmarks.evaluation.run.hugging_face import HuggingFaceAgent
from mage_envs.benchmarks.evaluation.run.options import DryRunOption, PlayOptions, SamplingOption
from mage_envs.benchmarks.evaluation.run.preflight import Price
from mage_envs.benchmarks.evaluation.scoring.call_stats import without_texts
from mage_envs.benchmarks.evaluation.suites.adapt import ALL_CELLS, NAMED, AdaptCell
from mage_envs.benchmarks.evaluation.suites.paper import named_suite
from mage_envs.benchmarks.evaluation.suites.rows import POOL, SuiteRow
from mage_envs.benchmarks.evaluation.tables.markup import latex, markdown
from mage_envs.benchmarks.figures import figure_path
from mage_envs.benchmarks.records.record_store import Records
from mage_envs.benchmarks.report.document import REPORT, Heading, can_write_reports, write_report
from mage_envs.benchmarks.report.runs import read_runs
from mage_envs.benchmarks.runs.suite_folder import begin, estimate_size, finish, plan_of, play_runs
from mage_envs.benchmarks.scale.adapt_figure import adapt_figure
from mage_envs.benchmarks.scale.adapt_parts import add_questions, read_parts
from mage_envs.benchmarks.scale.adapt_table import PAIRED, AdaptResult, agents_table, rank_results
from mage_envs.benchmarks.scale.adaptation import ScaledRun, load_cell_run
from mage_envs.benchmarks.scale.scale_text import LEGEND
from mage_envs.benchmarks.scale.stored_suites import NONE, OTHER, cell_scale
from mage_envs.benchmarks.suites.planning import PlannedRun, plan_runs, short_names
from mage_envs.cli.commands import JsonOption, output_option
from mage_envs.cli.tables import as_text, print_report
from mage_envs.files.atomic import write_atomically
from mage_envs.files.locking import FolderLock
from mage_envs.opponents.registry import portable_spec
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


def read_controls(text: str | None, verdict: bool) -> tuple[str, ...]:
    """Return the controls to play.

    Args:
        text: Names of `--controls`, separated by commas.
        verdict: True to play those of the verdict, too.

    Raises:
        ValueError: If a name is unknown or occurs twice.
    """
    names = tuple(text.split(",")) if text else ()
    wrong = [name for name in names if name not in PAIRED or names.count(name) > 1]
    if wrong:
        raise ValueError(f"--controls expects different names of {', '.join(PAIRED)}, got {wrong[0]!r}.")
    return tuple(dict.fromkeys((*(VERDICT if verdict else ()), *names)))


def command(
    agents: Annotated[
        list[str],
        typer.Argument(
            metavar="AGENT",
            help=f"Agents as in mage eval, or policy:NAME for a reference of each cell: {', '.join(NAMED)}",
        ),
    ],
    options: PlayOptions,
    suite: Annotated[
        SuiteName,
        typer.Option(
            help="adapt (default), four small cells: adapt-mini, or opponents that learn or change: adapt-learning"
        ),
    ] = "adapt",
    pool: Annotated[
        Literal["described", "hidden", "both"] | None,
        typer.Option(
            help="Describe the pool in the prompts, or not (default: both for a model, described in adapt-mini, and "
            "hidden for a policy, which reads no prompt)"
        ),
    ] = None,
    controls: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help=f"Further paired runs beside the main one, of {', '.join(PAIRED)}, as in neutral,same (default: none)",
        ),
    ] = None,
    no_controls: Annotated[
        bool,
        typer.Option(
            "--no-controls",
            help="Leave out the runs without memory and with another opponent's, and with them the verdict",
        ),
    ] = False,
    elicit: Annotated[
        bool,
        typer.Option(
            "--elicit",
            help="Between episodes, ask how likely each opponent is, and print the parts of the regret: one extra call",
        ),
    ] = False,
    sampling: SamplingOption = None,
    out: Annotated[Path | None, output_option("FOLDER", "Folder for the runs (default: none are kept)")] = None,
    dry_run: DryRunOption = False,
    table_format: Annotated[
        Literal["text", "markdown", "latex"], typer.Option("--format", help="Format of the table of several agents")
    ] = "text",
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", parser=figure_path, help="Draw the two numbers of each agent, as PNG, PDF or SVG"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure whether agents adapt to whom they play: the level of play, and what their own memory is worth to them.

    Level 0 is the best play that forgets between episodes, 1 the best learner, both exact. Every agent plays the same
    tasks with its memory, without it, and with another opponent's. The exit status is the most severe one of mage eval.

    Example: mage adapt policy:myopic --suite adapt-mini --out runs/myopic
    """
    if options.resume and out is None:
        raise ValueError("--resume continues the runs of a folder. Name the folder with --out.")
    if len(set(agents)) < len(agents):
        raise ValueError("An agent is named twice. Name each agent once.")
    plan = SuitePlay(
        suite=suite,
        pool=pool,
        controls=read_controls(controls, verdict=not no_controls),
        elicit=elicit,
        sampling=sampling,
        options=options,
        dry_run=dry_run,
    )
    results, statuses = [], list[int]()
    for agent in agents:
        folder = out if out is None or len(agents) == 1 else out / folder_name(agent)
        result, status = plan.play(agent, folder)
        statuses.append(status)
        if result is not None:
            results.append(result)
            if len(agents) > 1 and not as_json:
                sys.stdout.write(f"{result.sentence()}\n")
                sys.stdout.flush()
    if as_json and results:
        values = [result.to_json() for result in results]
        sys.stdout.write(json.dumps(values if len(agents) > 1 else values[0]) + "\n")
    elif len(results) > 1:
        table = agents_table(results)
        if table_format == "text":
            print_report(["", table, "", *LEGEND])
        else:
            caption = f"Level and adaptation in the suite {suite}."
            sys.stdout.write(
                "\n" + (markdown(table.cells) if table_format == "markdown" else latex(table.cells, caption))
            )
    elif results:
        print_report(results[0].blocks())
    if plot is not None and results:
        figures.save(adapt_figure(rank_results(results)), plot)
        sys.stderr.write(f"wrote {plot}\n")
    if any(statuses):
        raise SystemExit(min(status for status in statuses if status))


def folder_name(agent: str) -> str:
    """Return the name of an agent's folder, without the address of a server."""
    return re.sub(r"[^\w.+-]+", "-", portable_spec(agent)).strip("-")


@dataclass(frozen=True, kw_only=True)
class SuitePlay:
    """How agents play a suite."""

    suite: SuiteName
    pool: str | None
    """Condition of the main run, or None for the agent's default."""
    controls: Sequence[str]
    elicit: bool
    """True to ask for beliefs in the main condition."""
    sampling: Mapping[str, float] | None
    options: PlayOptions
    dry_run: bool

    def play(self, spec: str, out: Path | None) -> tuple[AdaptResult | None, int]:
        """Play an agent in all cells, and return its result and exit status; no result for a dry run.

        Args:
            spec: Specification of the agent.
            out: Folder for the runs, or None for a temporary one.

        Raises:
            ValueError: If the agent plays no cell of the suite.
        """
        suite, options = named_suite(self.suite), self.options
        name, memory = split_memory(spec)
        agent = None if is_reference(name) else make_agent(name, self.sampling)
        shorts = short_names(suite)
        condition = self.pool or default_pool(agent, self.suite)
        rows = rows_of(name, agent, memory, self.sampling, condition, shorts)
        rows += controls_of(rows[0], self.controls, list(shorts.values()))
        cells = plan_runs(suite, rows, None, suite.protocols, suite.lengths)
        if not cells:
            raise ValueError(f"{spec} plays no cell of {self.suite}.")
        if self.elicit:
            cells = add_questions(cells, rows[0].name)
        if self.dry_run:
            sys.stdout.write(f"{NOTE}\n\n{expectation(cells, options.price, sys.stdout.write)}\n")
            return None, 0
        label = name if agent is None else agent.name
        # A run that goes on has stated its size before, and its calls would be paid for twice.
        if agent is not None and is_model(agent) and not options.resume:
            text = expectation(cells, options.price) + estimate_time(cells, agent)
            if set(VERDICT) <= {cell.row.name for cell in cells}:
                text += "; the runs of the verdict are included (--no-controls leaves them out)"
                if isinstance(agent, EndpointAgent):
                    # No memory exists yet, so the prompts and seeds are those of the main run.
                    text += ", and their first episodes come from the cache"
            sys.stderr.write(f"{one_line(label)}, {self.suite}: {text}\n")
        # No baseline of repeated tasks is a reference here.
        with folder_of(out) as folder:
            plan = plan_of(self.suite, False, rows, cells)
            with FolderLock(folder):
                begin(folder, plan, options.resume)
                suite_cells, statuses = play_runs(cells, folder, replace(options, baselines=False))
                finish(folder, plan, cells)
                parts = read_parts(cells, folder, rows[0].name) if self.elicit else {}
                result = AdaptResult(self.suite, label, load_runs(cells, folder), parts)
                write_atomically(folder / TABLE, as_text(result.blocks()))
                write_atomically(folder / VALUES, json.dumps(result.to_json(), indent=1) + "\n")
                if out is not None and can_write_reports():
                    summaries = {
                        folder / cell.folder: suite_cell.summary
                        for cell, suite_cell in zip(cells, suite_cells, strict=True)
                    }
                    write_report(
                        folder / REPORT,
                        read_runs(list(summaries), summaries=summaries),
                        head=Heading(f"{result.sentence()}."),
                    )
        if out is not None:
            sys.stderr.write(f"wrote {out / VALUES}\n")
        return result, min((status for status in statuses if status), default=0)


def is_model(agent: Agent) -> bool:
    """Return True if the agent reads prompts."""
    return isinstance(agent, EndpointAgent | HuggingFaceAgent | SavedModelAgent)


def is_reference(name: str) -> bool:
    """Return True for `policy:NAME` with a name of `NAMED`."""
    return name.removeprefix("policy:") in NAMED and name.startswith("policy:")


def default_pool(agent: Agent | None, suite: str) -> str:
    """Return the conditions that an agent plays by default."""
    if agent is None or not is_model(agent):
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
