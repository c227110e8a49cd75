"""`mage adapt`: does an agent adapt to whom it plays? Its level of play, and what its memory is worth to it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from mage_envs.benchmarks import figures
from mage_envs.benchmarks.evaluation.run.agents import split_memory
from mage_envs.benchmarks.evaluation.run.dry_run import NOTE
from mage_envs.benchmarks.evaluation.run.options import DryRunOption, PlayOptions, SamplingOption
from mage_envs.benchmarks.evaluation.suites.adapt import NAMED
from mage_envs.benchmarks.evaluation.tables.markup import latex, markdown
from mage_envs.benchmarks.figures import figure_path
from mage_envs.benchmarks.records.record_store import RUN, SUITE
from mage_envs.benchmarks.runs.adapt_suite import VERDICT, SuiteName, expectation, plan_adapt, play_adapt
from mage_envs.benchmarks.runs.evaluation import read_evaluation
from mage_envs.benchmarks.runs.measuring import ending
from mage_envs.benchmarks.scale.adapt_figure import adapt_figure
from mage_envs.benchmarks.scale.adapt_table import PAIRED, AdaptResult, agents_table, rank_results
from mage_envs.benchmarks.scale.scale_text import LEGEND
from mage_envs.benchmarks.scale.stored_suites import read_stored_suite
from mage_envs.cli.commands import JsonOption, output_option
from mage_envs.cli.tables import print_report
from mage_envs.opponents.registry import portable_spec


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
            help="Agents as in mage eval, folders that mage adapt --out, mage eval --out or a loop recorded, or "
            f"policy:NAME for a reference of each cell: {', '.join(NAMED)}",
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

    A folder of records is scored again without a call.

    Example: mage adapt policy:myopic --suite adapt-mini --out runs/myopic
    """
    if options.resume and out is None:
        raise ValueError("--resume continues the runs of a folder. Name the folder with --out.")
    if len(set(agents)) < len(agents):
        raise ValueError("An agent is named twice. Name each agent once.")
    stored = [agent for agent in agents if any((Path(agent) / name).exists() for name in (RUN, SUITE))]
    if len(stored) == len(agents) and (controls is not None or elicit or pool is not None or dry_run):
        raise ValueError("--controls, --elicit, --pool and --dry-run apply to agents that play. Remove them.")
    if any((Path(agent) / RUN).exists() for agent in agents):
        if other := next((agent for agent in agents if not (Path(agent) / RUN).exists()), None):
            raise ValueError(f"{other} is not a run of one panel, as the others are. Score it by a command of its own.")
        _print_runs([Path(agent) for agent in agents], as_json)
        return
    # Read before an agent plays, whose calls would be spent for nothing.
    read_results = {agent: AdaptResult.of(read_stored_suite(Path(agent))) for agent in stored}
    suites = [*(result.suite for result in read_results.values()), *([suite] if len(stored) < len(agents) else [])]
    if different := [name for name in suites if name != suites[0]]:
        raise ValueError(f"One table has one suite, got {suites[0]} and {different[0]}. Choose it with --suite.")
    results, statuses = [], list[int]()
    for agent in agents:
        if agent in read_results:
            results.append(read_results[agent])
            statuses.append(3 if results[-1].failed else 0)
            continue
        name, memory = split_memory(agent)
        plan = plan_adapt(
            suite,
            name,
            memory=memory,
            pool=pool,
            controls=read_controls(controls, verdict=not no_controls),
            elicit=elicit,
            sampling=sampling,
        )
        if dry_run:
            sys.stdout.write(f"{NOTE}\n\n{expectation(plan.runs, options.price, sys.stdout.write)}\n")
            continue
        result, status = play_adapt(plan, out if out is None or len(agents) == 1 else out / folder_name(agent), options)
        statuses.append(status)
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
            caption = f"Level and adaptation in the suite {results[0].suite}."
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


def _print_runs(folders: Sequence[Path], as_json: bool) -> None:
    """Print the level and the adaptation of stored runs of single panels. Exits as `mage eval --from`."""
    statuses = []
    for number, folder in enumerate(folders):
        evaluation = read_evaluation(folder)
        if evaluation.judged is None:
            raise ValueError(
                f"{folder}: its decisions cannot be judged exactly, so there is no level. Its scores: mage eval --from "
                f"{folder}"
            )
        if as_json:
            sys.stdout.write(json.dumps(evaluation.to_json()) + "\n")
        else:
            print_report([*[""] * (number > 0), *evaluation.blocks()])
        statuses.append(ending(evaluation.setting, evaluation.measured))
    if any(statuses):
        raise SystemExit(min(status for status in statuses if status))


def folder_name(agent: str) -> str:
    """Return the name of an agent's folder, without the address of a server."""
    return re.sub(r"[^\w.+-]+", "-", portable_spec(agent)).strip("-")
