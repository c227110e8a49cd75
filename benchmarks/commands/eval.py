"""`mage eval`: evaluation of agents, or of the rows of a suite, with records that can be executed again."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mage_envs.benchmarks.evaluation.run.agents import (
    Agent,
    EndpointAgent,
    PolicyAgent,
    keeps_state,
    make_agent,
    split_memory,
)
from mage_envs.benchmarks.evaluation.run.options import DryRunOption, EvalOptions, PanelOptions, PlayOptions
from mage_envs.benchmarks.evaluation.run.panel_setting import setting_from
from mage_envs.benchmarks.evaluation.suites.panels import QUICK, Size
from mage_envs.benchmarks.evaluation.suites.paper import EPISODES, PROTOCOLS, SUITES
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.evaluation.tables import summary_table
from mage_envs.benchmarks.runs.evaluation import Evaluation, evaluate_at, read_evaluation
from mage_envs.benchmarks.runs.measuring import ending
from mage_envs.cli.commands import JsonOption, choice_of, output_option, print_json
from mage_envs.cli.tables import print_report
from mage_envs.loading.imports import names_from

if TYPE_CHECKING:
    from mage_envs.benchmarks.runs.suite_play import TableFormat

SUITE_FIELDS = ("agents", "episodes", "game_options")
"""Options of a panel that also apply to a suite."""


def command(
    options: EvalOptions,
    agents: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="AGENT",
            help="policy:NAME, scripted:first, model:FOLDER or a folder, llm:…, module:function; AGENT+MEMORY sets the "
            "memory of one agent. With --suite: a YAML file of rows. Without: score the stored run --from",
        ),
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(
            parser=choice_of(tuple(SUITES)),
            metavar="NAME",
            help=f"Play the rows of a file at all settings of a suite: {', '.join(SUITES)}",
        ),
    ] = None,
    size: Annotated[
        Size | None,
        typer.Option(help="With --suite: meta-episodes per panel (default: 128 in the paper's suites, else 512)"),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(help=f"With --suite: {QUICK} tasks per panel at the first setting; the scores are not results"),
    ] = False,
    dry_run: DryRunOption = False,
    fill: Annotated[
        Path | None, output_option("FILE", "Fill the bank of --memory, for scope=run, with the tasks of --panel")
    ] = None,
    wide: Annotated[bool, typer.Option(help="Print a wide table with full intervals and every episode")] = False,
    table_format: Annotated[
        Literal["text", "markdown", "latex", "tsv"],
        typer.Option("--format", help="Format of the table"),
    ] = "text",
    as_json: JsonOption = False,
) -> None:
    """Evaluate models, policies or scripts on a panel or in a suite, with records.

    The exit status is 1 if an opponent has no scored meta-episode, and 3 if some failed or were not played. --json
    prints one line per agent, with the contents of summary.json.

    Example: mage eval scripted:random+reflexion --panel kuhn-paper-16 --out runs/a
    """
    if options.resume and options.out is None:
        raise ValueError("--resume continues the run of a folder. Name the folder with --out.")
    agents = agents or []
    if len(set(agents)) < len(agents):
        raise ValueError(f"Agents must differ, got {' '.join(agents)}.")
    options = replace(options, agents=tuple(agents))
    if not agents:
        _score_stored(options, suite is not None or dry_run, wide, table_format == "tsv", as_json)
        return
    if suite is not None:
        _evaluate_suite(suite, options, size, quick, dry_run, table_format, as_json)
        return
    if size is not None or quick:
        raise ValueError("--size and --quick apply to --suite. Add it, or use --panel NAME-16 for a small panel.")
    if table_format not in ("text", "tsv"):
        raise ValueError(f"--format {table_format} applies to --suite. Add it, or use --format tsv.")
    if fill is not None:
        _fill(fill, options)
        return
    # Make every agent before the first one plays, so that a bad name fails early.
    cells = [_cell(options, spec) for spec in options.agents]
    if dry_run:
        _print_expectations(cells)
        return
    _evaluate(cells, options, wide, table_format == "tsv", as_json)


def _score_stored(options: EvalOptions, plays: bool, wide: bool, tsv: bool, as_json: bool) -> None:
    """Print the scores of the runs in `--from`."""
    if options.source is None:
        raise ValueError("Name an agent, as in mage eval policy:kuhn/nash, or a stored run with --from RUN.")
    if plays or replace(options, source=None) != EvalOptions():
        raise ValueError("--from without an agent scores a stored run, which has all its options. Remove the others.")
    # Imported here and below, because most evaluations need neither stored runs, banks nor suites.
    from mage_envs.benchmarks.records.record_store import run_folders

    _report(map(read_evaluation, run_folders(Path(options.source))), wide, tsv, as_json, save=False)


def _evaluate(
    cells: Sequence[tuple[Agent, Setting, EvalOptions]], options: EvalOptions, wide: bool, tsv: bool, as_json: bool
) -> None:
    """Play the agents, and print and write what they scored."""
    if options.out is not None and len({agent_options.out for _, _, agent_options in cells}) < len(cells):
        raise ValueError("Two agents have the same folder below --out. Play them with one command each.")
    _report((evaluate_at(agent_options, agent, setting) for agent, setting, agent_options in cells), wide, tsv, as_json)


def _report(evaluations: Iterable[Evaluation], wide: bool, tsv: bool, as_json: bool, save: bool = True) -> None:
    """Print each result as soon as it is known, write its files if it has a folder, and exit with its status."""
    statuses = []
    for number, evaluation in enumerate(evaluations):
        # Write the files first: if the reader of stdout is gone, the next line raises.
        written = evaluation.save(evaluation.folder) if save and evaluation.folder is not None else []
        if as_json:
            sys.stdout.write(json.dumps(evaluation.to_json()) + "\n")
        elif tsv:
            sys.stdout.write("\n" * (number > 0) + summary_table.csv_text(evaluation.summary, "\t"))
        else:
            print_report([*[""] * (number > 0), *evaluation.blocks(wide)])
        sys.stderr.write("".join(f"wrote {path}\n" for path in written))
        statuses.append(ending(evaluation.setting, evaluation.measured))
    if any(statuses):
        raise SystemExit(min(status for status in statuses if status))


def _cell(options: EvalOptions, spec: str) -> tuple[Agent, Setting, EvalOptions]:
    """Return one of the agents, its setting, and the options for this agent alone."""
    name, memory = split_memory(spec)
    if memory is not None and options.memory is not None:
        raise ValueError(f"{spec} already names a memory. Remove --memory, or the part after the plus sign.")
    if options.name is not None and len(options.agents) > 1:
        raise ValueError(f"--name names one agent, got {len(options.agents)} agents.")
    agent = make_agent(name, options.sampling, options.name)
    out = options.out
    if out is not None and len(options.agents) > 1:
        if isinstance(agent, EndpointAgent):
            spec = "+".join([agent.name, *([memory] if memory else [])])
        out = out / re.sub(r"[^\w.+-]+", "-", spec).strip("-")
    agent_options = replace(options, agents=(name,), memory=memory or options.memory, out=out)
    setting = setting_from(agent_options, agent)
    if agent_options.elicit or agent_options.elicit_name:
        from mage_envs.benchmarks.evaluation.run.elicitation import add_question

        setting = add_question(setting, agent, "name" if agent_options.elicit_name else "probabilities")
    if agent_options.control is None:
        if agent_options.source is not None:
            raise ValueError("--from requires --control other or same. Add it, or remove --from.")
        return agent, setting, agent_options
    from mage_envs.benchmarks.records.controls import apply_control

    return (
        agent,
        apply_control(
            setting,
            agent_options.control,
            agent_options.source,
            isinstance(agent, PolicyAgent),
            keeps_state(agent),
        ),
        agent_options,
    )


def _print_expectations(cells: Sequence[tuple[Agent, Setting, EvalOptions]]) -> None:
    """Print the expected size of the run of each agent."""
    from mage_envs.benchmarks.evaluation.run.dry_run import NOTE
    from mage_envs.benchmarks.evaluation.run.dry_run import dry_run as expected_of

    sys.stdout.write(f"{NOTE}\n\n")
    for agent, setting, agent_options in cells:
        expected, count = expected_of(agent, setting, agent_options.price), len(setting.tasks)
        text = f"{count:,} meta-episodes, no model" if expected is None else expected.text(count, 1)
        sys.stdout.write(f"{agent.name}: {text}\n")


def _fill(bank: Path, options: EvalOptions) -> None:
    """Fill the bank of a memory."""
    if len(options.agents) > 1 or options.panel is None or options.memory is None:
        raise ValueError(
            "--fill needs one agent, --panel and --memory: mage eval AGENT --panel NAME --memory memento --fill FILE."
        )
    from mage_envs.benchmarks.runs.banks import fill_bank

    agent = make_agent(options.agents[0], options.sampling, options.name)
    game_options = options.game_options or {}
    sys.stdout.write(fill_bank(agent, options.panel, options.memory, bank, rows=options.rows, options=game_options))


def _evaluate_suite(
    name: str,
    options: EvalOptions,
    size: int | None,
    quick: bool,
    dry_run: bool,
    table_format: TableFormat | Literal["tsv"],
    as_json: bool,
) -> None:
    """Evaluate the rows of a file at the settings of a suite, next to the paper's reported scores."""
    from mage_envs.benchmarks.evaluation.run.dry_run import NOTE
    from mage_envs.benchmarks.evaluation.suites.suite_table import table_rows, text_blocks
    from mage_envs.benchmarks.evaluation.suites.suite_table import tsv as suite_tsv
    from mage_envs.benchmarks.report.document import REPORT
    from mage_envs.benchmarks.runs.suite_folder import estimate_size
    from mage_envs.benchmarks.runs.suite_play import plan_suite, play_suite

    if len(options.agents) > 1:
        raise ValueError(f"--suite reads one YAML file of rows, got {' '.join(options.agents)}.")
    for field in fields(PanelOptions):
        if field.name not in SUITE_FIELDS and getattr(options, field.name) != field.default:
            raise ValueError(
                f"--{field.name.replace('_', '-')} does not apply to --suite; a row of its file may set it."
            )
    game_options = dict(options.game_options or {})
    protocol = game_options.pop("protocol", None)
    if game_options or protocol not in (None, *PROTOCOLS):
        raise ValueError(
            f"--suite takes only --game-option protocol={' or '.join(PROTOCOLS)}; its rows set the others."
        )
    if options.episodes not in (None, *EPISODES):
        raise ValueError(f"--episodes {options.episodes} must be {' or '.join(map(str, EPISODES))} in a suite.")
    rows = Path(options.agents[0])
    # The author of a suite file may not be the user. It may name files, but no module that the user did not import.
    with names_from(rows, paths=True):
        plan = plan_suite(name, rows, size=size, protocol=protocol, episodes=options.episodes, quick=quick)
        if dry_run:
            sys.stdout.write(f"{NOTE}\n\n")
            expected = estimate_size(plan.runs, options.price, sys.stdout.write)
            cost = "" if options.price is None else f", price {expected.price or 0 if expected else 0:,.2f}"
            calls = expected.calls if expected else 0
            sys.stdout.write(f"\nSum of the means, without an interval: {calls:,.0f} calls{cost}\n")
            return
        if options.out is None:
            raise ValueError("Name the folder for the runs with --out, or print what to expect with --dry-run.")
        play_options = PlayOptions(**{field.name: getattr(options, field.name) for field in fields(PlayOptions)})
        played_suite = play_suite(plan, options.out, play_options)
    if as_json:
        print_json(table_rows(played_suite.cells))
    elif table_format == "tsv":
        sys.stdout.write(suite_tsv(played_suite.cells))
    elif table_format == "text":
        print_report(text_blocks(played_suite.tables))
    else:
        sys.stdout.write(played_suite.text(table_format))
    if (options.out / REPORT).exists():
        sys.stderr.write(f"wrote {options.out / REPORT}\n")
    if played_suite.status:
        raise SystemExit(played_suite.status)
