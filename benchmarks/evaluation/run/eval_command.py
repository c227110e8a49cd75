"""`mage eval`: evaluation of agents at a setting, with records that can be executed again."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from benchmarks.evaluation.run.agents import Agent, EndpointAgent, SavedModelAgent, make_agent, split_memory
from benchmarks.evaluation.run.baselines import baseline_rows
from benchmarks.evaluation.run.budget import Limits
from benchmarks.evaluation.run.environments import game_of, seats_of
from benchmarks.evaluation.run.evaluate import account, evaluate, failure_log_in, lacked_budget, progress_of
from benchmarks.evaluation.run.options import ROWS, EvalOptions, PanelOptions, PlayOptions
from benchmarks.evaluation.run.preflight import CutReplies, Preflight
from benchmarks.evaluation.run.summary import summary_of
from benchmarks.evaluation.scoring.call_stats import without_texts
from benchmarks.evaluation.scoring.scores import Summary, label
from benchmarks.evaluation.suites.panels import Panel, full_name, named_panel, weights_of
from benchmarks.evaluation.suites.setting import Setting
from benchmarks.evaluation.tables import layout, summary_table
from benchmarks.executors import Executor, Local, make_executor
from benchmarks.records.about import about_run, identity_of
from mage_envs.cli.commands import JsonOption, describe_error
from mage_envs.cli.tables import print_report
from mage_envs.core import Game
from mage_envs.registry import settings_of
from mage_envs.text.visible import one_line
from opponents.registry import split_names, without_servers
from trainer.method.trajectory import Trajectory
from trainer.runs.trajectory_json import trajectory_from_json

if TYPE_CHECKING:
    from benchmarks.records.record_store import Writer

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
        measured = measure(own, agent, setting, own.agents[0])
        written: list[Path] = []
        if own.out is not None:
            # Imported here and below, because most evaluations need neither a report, a record, a control nor workers.
            from benchmarks.report.document import REPORT, can_write_reports, write_report
            from benchmarks.report.runs import read_runs

            written = summary_table.save(own.out, measured.summary)
            if can_write_reports():
                written.append(own.out / REPORT)
                write_report(written[-1], read_runs([own.out], known={own.out: measured.summary}))
        # Write the files first: if the reader of stdout is gone, the next line raises.
        if as_json:
            sys.stdout.write(json.dumps(measured.summary.to_json()) + "\n")
        else:
            _print_table(measured.summary, wide, tsv, first=number == 0)
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
    if own.elicit:
        from benchmarks.evaluation.run.elicitation import eliciting

        setting = eliciting(setting, agent)
    if own.control is None:
        if own.source is not None:
            raise ValueError("--from requires --control other or same. Add it, or remove --from.")
        return agent, setting, own
    from benchmarks.evaluation.run.controls import controlled

    return agent, controlled(setting, own.control, own.source), own


class Measured(NamedTuple):
    """The result of an agent at a setting."""

    summary: Summary
    trajectories: Sequence[Trajectory]
    limits: Limits


def measure(options: PlayOptions, agent: Agent, setting: Setting, spec: str) -> Measured:
    """Play the meta-episodes of the setting that are not in `options.out` yet, and score all of them.

    Args:
        options: Options of the play.
        agent: Agent to evaluate.
        setting: Panel and options.
        spec: Specification of the agent, from which workers make it.

    Raises:
        RuntimeError: If no meta-episode was played.
        ValueError: If an option is out of range.
    """
    executor = _executor(options)
    limits = Limits(options.max_calls, options.max_tokens, options.max_minutes)
    if isinstance(agent, EndpointAgent):
        agent.look_up(setting.game_name)
    about = about_run(agent, setting)
    writer: Writer | None = None
    if options.out is not None:
        from benchmarks.records.record_store import Writer

        writer = Writer(options.out, about, options.resume)
    if isinstance(executor, Local):
        play = partial(_play, options, agent, setting, limits)
    else:
        play = partial(_play_spread, options, executor, spec, about)
    if writer is None:
        trajectories = play(range(len(setting.tasks)), None)
    else:
        for problem in writer.problems:
            sys.stderr.write(f"{options.out}: {problem}; playing it again, the old shard is kept\n")
        _keep(writer, play, partial(_add, writer, agent, setting.game_name))
        # Scoring the stored records gives a resumed run the same tables as an uninterrupted one.
        trajectories = _played_in(writer.folder) if writer.kept else []
    if not trajectories:
        raise RuntimeError(f"Nothing was played: {limits.spent() or 'no worker returned a meta-episode'}.")
    floors = baseline_rows(setting, partial(_play_baseline, options)) if options.baselines else ()
    return Measured(replace(summary_of(agent.name, setting, trajectories), floors=floors), trajectories, limits)


def _played_in(folder: Path) -> list[Trajectory]:
    """Return all meta-episodes of a run in the panel's order, with the fields that tables read."""
    from benchmarks.records.record_store import Shards

    found: dict[int, Trajectory] = {}
    shards = Shards(folder, lambda line: found.update({line["index"]: without_texts(trajectory_from_json(line))}))
    if lost := [*shards.unreadable, *(problem for problem in shards.problems if problem.line)]:
        # Without these lines the scores would be wrong.
        raise ValueError(f"{folder}: {lost[0]}. All meta-episodes were stored; use --resume when it can be read.")
    return [trajectory for _, trajectory in sorted(found.items())]


def _add(writer: Writer, agent: Agent, game_name: str, index: int, trajectory: Trajectory) -> None:
    """Store a meta-episode. Raise OtherRun if the agent's server has changed its model since the last one."""
    if isinstance(agent, EndpointAgent):
        writer.confirm(identity_of(agent, game_name))
    writer.add(index, trajectory)


def _keep(writer: Writer, play: Callable[..., list[Trajectory]], add: Callable[[int, Trajectory], None]) -> None:
    """Play the missing meta-episodes of a run. If this fails, report on stderr how many are stored."""
    try:
        play(writer.todo, add)
        writer.close()
    except BaseException as error:
        # If the disk is full, this fails, too. The error that is raised below already reports it.
        with suppress(OSError):
            writer.give_up()
        kept = f"{writer.safe} of {writer.planned} meta-episodes are kept"
        if isinstance(error, KeyboardInterrupt):
            sys.stderr.write(f"\nInterrupted: {kept}; the same command with --resume continues the run.\n")
            raise SystemExit(130) from None
        if isinstance(error, OSError | CutReplies) and writer.kept:
            raise RuntimeError(
                f"{describe_error(error)} {kept}; the same command with --resume continues the run."
            ) from error
        raise


def _print_table(summary: Summary, wide: bool, tsv: bool, first: bool) -> None:
    """Print the table, narrow or wide, or with tabs between the fields (`tsv`). A blank line separates two tables."""
    if tsv:
        sys.stdout.write(("" if first else "\n") + summary_table.csv_text(summary, "\t"))
        return
    blocks = summary_table.blocks(summary) if wide else layout.narrow(summary)
    print_report(blocks if first else ["", *blocks])


def _play_baseline(options: PlayOptions, agent: Agent, setting: Setting) -> list[Trajectory]:
    """Play the policy of a baseline with the options of the agent, but without the limits, which are for models."""
    return evaluate(
        agent,
        setting.tasks,
        setting.options,
        batch=options.batch,
        workers=options.env_workers,
        env_timeout=options.env_timeout,
        memory_gb=options.env_memory_gb,
        on_step=progress_of(agent.name),
        reduce=without_texts,
    )


def _play(
    options: PlayOptions,
    agent: Agent,
    setting: Setting,
    limits: Limits,
    todo: Sequence[int],
    add: Callable[[int, Trajectory], None] | None,
) -> list[Trajectory]:
    """Play the tasks at the indices `todo` of the panel.

    `add` receives each meta-episode that finished within the budget.
    """
    if not todo:
        return []
    progress = progress_of(agent.name)
    before = len(setting.tasks) - len(todo)
    finished = before
    preflight = None
    if isinstance(agent, EndpointAgent):
        slots = min(agent.slots, options.batch)
        preflight = Preflight(agent.name, len(todo), slots, price=options.price, allow_cut=options.allow_cut)

    def keep(place: int, trajectory: Trajectory) -> None:
        nonlocal finished
        if lacked_budget(trajectory):
            return
        finished += 1
        if add is not None:
            add(todo[place], trajectory)
        if preflight is not None:
            preflight.add(place, trajectory)

    with failure_log_in(options.out) as failure_log:
        played = evaluate(
            agent,
            [setting.tasks[index] for index in todo],
            setting.options,
            # `collect` starts every slot at once, so the number of slots must respect the budget before the first call.
            batch=limits.slots(options.batch, setting.most_calls // len(setting.tasks)),
            workers=options.env_workers,
            env_timeout=options.env_timeout,
            memory_gb=options.env_memory_gb,
            # Meta-episodes that a limit ended are not finished, although `collect` is done with them.
            on_step=lambda done, total: progress(finished, len(setting.tasks), before),
            on_finished=keep,
            reduce=without_texts,
            limits=limits,
            failure_log=failure_log,
        )
    return [trajectory for trajectory in played if not lacked_budget(trajectory)]


def _executor(options: PlayOptions) -> Executor:
    """Return the executor. Raise ValueError if an option requires a single process."""
    executor = make_executor(options.executor)
    for name in ("max_calls", "max_tokens", "max_minutes", "env_workers", "env_memory_gb"):
        if vars(options)[name] and not isinstance(executor, Local):
            raise ValueError(
                f"--{name.replace('_', '-')} requires a single process, but --executor {options.executor} uses "
                "several. Remove one of them."
            )
    return executor


def _play_spread(
    options: PlayOptions,
    executor: Executor,
    spec: str,
    about: Mapping[str, Any],
    todo: Sequence[int],
    add: Callable[[int, Trajectory], None] | None,
) -> list[Trajectory]:
    """Play like `_play`, but with an executor of several processes. The pieces of lost workers count as not played."""
    if not todo:
        return []
    from benchmarks.evaluation.run.distributed import play_spread

    progress = progress_of(about["agent"]["name"])
    planned = about["setting"]["meta_episodes"]
    before = planned - len(todo)
    played: list[Trajectory] = []

    def keep(place: int, trajectory: Trajectory) -> None:
        played.append(without_texts(trajectory))
        if add is not None:
            add(place, trajectory)
        progress(len(played) + before, planned, before)

    with failure_log_in(options.out) as failure_log:
        lost = play_spread(executor, spec, about, todo, keep, batch=options.batch, env_timeout=options.env_timeout)
        if played:
            account(played, about["agent"]["name"], failure_log)
    sys.stderr.write("".join(f"mage: {one_line(one)}\n" for one in lost))
    return played


def ending(setting: Setting, measured: Measured) -> int:
    """Report missing and failed meta-episodes on stderr.

    Returns:
        1 if an opponent has no scores, 3 if any meta-episode failed or was not played, else 0.
    """
    summary, trajectories, limits = measured
    if unscored := [row.opponent or "all" for row in summary.rows if not row.meta_episodes]:
        first = next(t.failure for t in trajectories if (label(t) or "all") == unscored[0])
        sys.stderr.write(
            f"mage: no meta-episode of {', '.join(unscored)} could be played; the first: {one_line(first)}\n"
        )
        return 1
    missing = len(setting.tasks) - len(trajectories)
    if missing:
        reason = limits.spent() or "the budget is spent, or their workers were lost"
        sys.stderr.write(f"mage: {missing} meta-episodes were not played: {reason}; --resume plays them\n")
    failed = [t.failure for t in trajectories if t.failure is not None]
    if failed:
        sys.stderr.write(f"mage: {len(failed)} meta-episodes failed; the first: {one_line(failed[0])}\n")
    return 3 if missing or failed else 0


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
