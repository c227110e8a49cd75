"""`mage eval`: evaluation of agents at a setting, with records that can be executed again."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mage_envs.benchmarks.evaluation.run.agents import (
    Agent,
    EndpointAgent,
    PolicyAgent,
    SavedModelAgent,
    make_agent,
    split_memory,
)
from mage_envs.benchmarks.evaluation.run.environments import game_of, seats_of
from mage_envs.benchmarks.evaluation.run.measuring import ending, measure_judged
from mage_envs.benchmarks.evaluation.run.options import ROWS, EvalOptions, PanelOptions
from mage_envs.benchmarks.evaluation.scoring.scores import Summary
from mage_envs.benchmarks.evaluation.suites.panels import Panel, full_name, named_panel, weights_of
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.evaluation.tables import layout, summary_table
from mage_envs.cli.commands import JsonOption
from mage_envs.cli.tables import Block, print_report
from mage_envs.core import Game
from mage_envs.opponents.registry import split_names, without_servers
from mage_envs.registry import settings_of

if TYPE_CHECKING:
    from mage_envs.benchmarks.scale.judged_play import JudgedAgent

_ENV_OPTIONS = ("protocol", "num_episodes", "memory", "context", "style")
"""Options of the environment that have a flag of their own."""


def command(
    agents: Annotated[
        list[str],
        typer.Argument(
            metavar="AGENT",
            help="policy:NAME, scripted:first, model:FOLDER or a folder, llm:…; AGENT+MEMORY sets the memory of one "
            "agent",
        ),
    ],
    options: EvalOptions,
    wide: Annotated[bool, typer.Option(help="Print a wide table with full intervals and every episode")] = False,
    tsv: Annotated[bool, typer.Option(help="Print all scores with tabs between the fields, not aligned")] = False,
    as_json: JsonOption = False,
) -> None:
    """Evaluate a saved model, a policy or a scripted agent on a panel, and store its records.

    The exit status is 1 if an opponent has no scored meta-episode, and 3 if some failed or were not played. --json
    prints one line per agent, with the contents of summary.json.

    Example: mage eval scripted:random+reflexion --panel kuhn-paper-16 --out runs/a
    """
    if options.resume and options.out is None:
        raise ValueError("--resume continues the run of a folder. Name the folder with --out.")
    if len(set(agents)) < len(agents):
        raise ValueError(f"Agents must differ, got {' '.join(agents)}.")
    options = replace(options, agents=tuple(agents))
    # Make every agent before the first one plays, so that a bad name fails early.
    cells = [_cell(options, spec) for spec in options.agents]
    if options.out is not None and len({own.out for _, _, own in cells}) < len(cells):
        raise ValueError("Two agents have the same folder below --out. Play them with one command each.")
    statuses = []
    for number, (agent, setting, own) in enumerate(cells):
        measured, judged = measure_judged(own, agent, setting)
        written: list[Path] = []
        if own.out is not None:
            # Imported here and below, because most evaluations need neither a report, a record, a control nor workers.
            from mage_envs.benchmarks.report.document import REPORT, UNJUDGED, Heading, can_write_reports, write_report
            from mage_envs.benchmarks.report.runs import read_runs
            from mage_envs.benchmarks.scale.judged_play import judged_together

            written = summary_table.save(own.out, measured.summary, judged=None if judged is None else judged.curves())
            if can_write_reports():
                written.append(own.out / REPORT)
                head = UNJUDGED if judged is None else Heading(*judged_together([judged]))
                write_report(written[-1], read_runs([own.out], known={own.out: measured.summary}), head=head)
        # Write the files first: if the reader of stdout is gone, the next line raises.
        if as_json:
            told = measured.summary.to_json() | ({} if judged is None else {"scale": judged.to_json()})
            sys.stdout.write(json.dumps(told) + "\n")
        else:
            _print_table(measured.summary, judged, wide, tsv, first=number == 0)
        sys.stderr.write("".join(f"wrote {path}\n" for path in written))
        statuses.append(ending(setting, measured))
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
    own = replace(options, agents=(name,), memory=memory or options.memory, out=out)
    setting = setting_from(own, agent)
    if own.elicit or own.elicit_name:
        from mage_envs.benchmarks.evaluation.run.elicitation import add_question

        setting = add_question(setting, agent, "name" if own.elicit_name else "probabilities")
    if own.control is None:
        if own.source is not None:
            raise ValueError("--from requires --control other or same. Add it, or remove --from.")
        return agent, setting, own
    from mage_envs.benchmarks.evaluation.run.controls import controlled

    return agent, controlled(setting, own.control, own.source, isinstance(agent, PolicyAgent)), own


def _print_table(summary: Summary, judged: JudgedAgent | None, wide: bool, tsv: bool, first: bool) -> None:
    """Print the sentence, one table and the warnings; all tables if `wide`; with tabs between the fields if `tsv`."""
    if tsv:
        sys.stdout.write(("" if first else "\n") + summary_table.csv_text(summary, "\t"))
        return
    blocks: list[Block] = [] if first else [""]
    if judged is not None:
        blocks += [f"{judged.sentence()}.", ""]
    blocks += layout.heading(summary)
    if judged is not None:
        blocks += ["", f"{summary.unit.capitalize()} per hand", *judged.blocks()]
    if wide:
        # Its last lines are the warnings.
        print_report([*blocks, "", *summary_table.blocks(summary), *layout.kinds(summary), *layout.failures(summary)])
        return
    if judged is None:
        blocks += layout.means(summary)
    print_report([*blocks, *layout.failures(summary), *summary.overall.warnings()])


def setting_from(options: PanelOptions, agent: Agent) -> Setting:
    """Return the setting that the options select. The options of a saved model are the defaults."""
    if options.panel is not None and options.opponents is not None:
        raise ValueError("--panel fixes its opponents. Remove --panel or --opponents.")
    own = dict(agent.settings.env_kwargs) if isinstance(agent, SavedModelAgent) else {}
    given = options.env_kwargs or {}
    flags = {name: vars(options)[name] for name in _ENV_OPTIONS if vars(options)[name] is not None}
    if doubled := sorted(set(given) & set(flags)):
        raise ValueError(f"{doubled[0]} is set in --env-kwargs and by its flag. Remove one of them.")
    chosen = {**given, **flags}
    if options.panel is not None:
        named = named_panel(options.panel)
        if options.rows is not None or options.seed is not None:
            raise ValueError("--panel fixes its rows and its seed. Remove --rows and --seed, or use --opponents.")
        env_id = options.env or (agent.settings.env_id if isinstance(agent, SavedModelAgent) else named.env_id)
        if env_id != named.env_id:
            raise ValueError(f"Panel {options.panel!r} is played in {named.env_id}, not in {env_id}.")
        # The panel's options win over those of the model's training. The user's own ones are checked by `Setting`.
        return Setting(named, full_name(options.panel), {**named.kept_of(own), **chosen})
    return _own_setting(options, agent, {**own, **chosen})


def _own_setting(options: PanelOptions, agent: Agent, env_kwargs: Mapping[str, Any]) -> Setting:
    """Return a setting with the given opponents, rows and seed instead of a named panel."""
    env_id = options.env
    if env_id is None and isinstance(agent, SavedModelAgent):
        env_id = agent.settings.env_id
    if env_id is None:
        raise ValueError("Nothing to play. Use --env mage/KuhnPoker-Meta-v0 (or another -Meta-v0 id), or --panel NAME.")
    rows = ROWS if options.rows is None else options.rows
    seed = options.seed or 0
    seats = tuple(seat for seat in seats_of(env_id, env_kwargs) if seat is not None)
    weights = _opponents(options.opponents, game_of(env_id, env_kwargs)) if seats else ""
    panel = Panel(env_id=env_id, about="", seed=seed, rows_per_cell=rows, opponents=weights, seats=seats, size=0)
    if rows < 1:
        raise ValueError(f"A panel needs at least one row per cell, got --rows {rows}.")
    return Setting(panel, f"seed {seed}", env_kwargs)


def _opponents(text: str | None, game: Game) -> dict[str, float]:
    """Return the opponents and their weights; the game's default opponents if `text` is None."""
    if text is None:
        return weights_of(settings_of(game.spec.name).opponent)
    names = without_servers(split_names(text))
    if len(names) == 1 and names[0].startswith("pool:"):
        return weights_of(names[0])
    if len(set(names)) < len(names):
        raise ValueError(f"The opponents of a panel must differ, got --opponents {text}.")
    return dict.fromkeys(names, 1.0)
